package wirelabtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/view"
	"wirelab.dev/internal/wire/workload/own"
)

// A measurement is one Compare.
type measurement struct {
	testName
	settings
	service  own.Service
	progress io.Writer
	scenario *scenario.Scenario
	until    *record.Until     // nil with a fixed number of repeats
	before   *analysis.Summary // of the baseline; nil without one
}

// configure applies the options, and makes the scenario.
func (m *measurement) configure(options []Option) error {
	s := &m.settings
	*s = settings{callers: defaultCallers, seed: 1}
	for _, o := range slices.Concat([]Option{Stacks("grpc", "fastgrpc")}, options) {
		if err := o.apply(s); err != nil {
			return err
		}
	}
	if err := s.checkTogether(); err != nil {
		return err
	}
	variants := words.List(variantNames(s.variants))
	m.scenario = &scenario.Scenario{
		Version: scenario.Version, Name: cmp.Or(wordOf(m.name), own.Name), Seed: s.seed,
		Title:     m.name + ": " + variants,
		Question:  "Which of " + variants + " carries this service fastest here, and which has the shortest tail?",
		Reduction: scenario.Reduction{Requests: 1, MaxClients: 1, Repeats: 1},
		Parts: []scenario.Part{{
			Name: "compare", Workload: own.Name, Sizes: []scenario.Payload{{}}, Clients: []int{s.callers}, Stacks: s.variants,
			Load:    scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(cmp.Or(s.window, defaultWindow))},
			WarmUp:  scenario.WarmUp{AtLeast: scenario.Duration(250 * time.Millisecond), AtMost: scenario.Duration(longestWarmUp)},
			Repeats: cmp.Or(s.repeats, firstRepeats), Stretch: s.window == 0,
		}},
	}
	if err := m.scenario.Check(library.Vocabulary()); err != nil {
		return err
	}
	if s.repeats > 0 || len(s.variants) < 2 {
		return nil
	}
	var err error
	m.until, err = plan.NewUntil(m.scenario, 0, plan.RepeatLimit{Repeats: plan.MaxBudgetRepeats, Time: cmp.Or(s.budget, defaultBudget)})
	return err
}

// measure makes one call over each stack in this process, to find mistakes in the service or the call
// at once. Then it measures, and reads the run.
func (m *measurement) measure(ctx context.Context) (*report.Run, error) {
	if err := m.readBaseline(); err != nil {
		return nil, err
	}
	for _, v := range m.variants {
		if err := m.tryCall(ctx, v); err != nil {
			return nil, fmt.Errorf("a first call over %s failed, so nothing was measured: %w", v, err)
		}
	}
	prepared, err := plan.Prepare(ctx, m.scenario, m.progress)
	if err != nil {
		return nil, err
	}
	m.scenario = prepared.Scenario
	temporary, err := os.MkdirTemp("", "wirelabtest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // the workers have ended
	command, err := m.workerCommand(temporary)
	if err != nil {
		return nil, err
	}
	if err := tryWorker(ctx, command); err != nil {
		return nil, fmt.Errorf("a first process of %s did not reach Compare, so nothing was measured; code before Compare runs in each process: %w", m.name, err)
	}
	workshop := lab.New(command)
	workshop.Seed, workshop.Anchored = m.seed, plan.HasAnchor(plan.Trials(m.scenario, m.until))
	if err := analysis.CheckCells(m.baseline, m.before, workshop.Cells(plan.Trials(m.scenario, m.until))); err != nil {
		return nil, err
	}
	run, err := m.create(slices.Concat(prepared.Warnings, plan.NotInSlices(m.scenario), workshop.Placement.Warnings, buildWarnings()))
	if err != nil {
		return nil, err
	}
	err = m.fill(ctx, workshop, run)
	status := record.Done
	switch {
	case err != nil && ctx.Err() != nil:
		status, err = record.Interrupted, context.Cause(ctx)
	case err != nil:
		status = record.Failed
	}
	if finished := run.Finish(status); err == nil {
		err = finished
	}
	if err != nil {
		return nil, err
	}
	return reader().ReadRun(run)
}

// fill measures the run's trials.
func (m *measurement) fill(ctx context.Context, workshop *lab.Lab, run *record.Run) error {
	course := plan.LookSeries{
		Run: run, Scenario: m.scenario, Limits: check.DefaultLimits(),
		Say: func(line string) { fmt.Fprintln(m.progress, line) },
		MeasureTrials: func(trials []scenario.PlannedCell) error {
			left := plan.NewEstimate(trials, run)
			shown := view.NewRun(m.progress, view.Run{Plan: trials, Order: lab.ManifestOrder(trials), Progress: func() view.RunProgress {
				return view.RunProgress{Done: left.DoneCount(), Trials: left.TrialCount(), Left: left.Remaining(), Took: left.Elapsed()}
			}})
			defer shown.Close()
			workshop.Observers = []live.Observer{left.Observe, shown.Observe}
			return workshop.Run(ctx, trials, run)
		},
	}
	if err := course.Measure(); err != nil {
		return err
	}
	workshop.ReadAnchor(ctx, run, 1)
	return nil
}

// tryTimeout limits the first call over a stack.
const tryTimeout = 10 * time.Second

func (m *measurement) tryCall(ctx context.Context, v scenario.Variant) error {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, fmt.Errorf("no answer came within %v", tryTimeout))
	defer cancel()
	return programOf(m.service).TryBothEnds(ctx, worker.Spec{Stack: v.String(), Workload: worker.Workload{Name: own.Name}})
}

// workerTimeout limits the time in which a worker must reach Compare.
const workerTimeout = 20 * time.Second

// tryWorker starts a worker that only says what it can do.
func tryWorker(ctx context.Context, command []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workerTimeout, fmt.Errorf("it took longer than %v", workerTimeout))
	defer cancel()
	process, err := worker.Start(worker.Launch{Name: "the process", Command: command, Spec: worker.Spec{Contract: worker.Contract, Role: worker.CapabilitiesRole}})
	if err != nil {
		return err
	}
	if _, err := process.Capabilities(ctx); err != nil {
		process.Kill()
		return err
	}
	return process.Stop()
}

// create makes the run, in memory or in a new directory.
func (m *measurement) create(warnings []string) (*record.Run, error) {
	manifest, err := m.newManifest(warnings)
	switch {
	case err != nil:
		return nil, err
	case m.into == "":
		return record.InMemory(manifest), nil
	}
	run, err := record.CreateFree(filepath.Join(m.into, m.scenario.Name+"-"+time.Now().Format("20060102-150405")), manifest)
	if err != nil {
		return nil, fmt.Errorf("SaveTo(%q): %w", m.into, err)
	}
	return run, nil
}

func (m *measurement) readBaseline() error {
	if m.baseline == "" {
		return nil
	}
	seen, err := reader().Read(m.baseline)
	if err != nil {
		return fmt.Errorf("Baseline(%q): %w", m.baseline, err)
	}
	m.before = seen.Summary
	return nil
}

// conclude judges the conditions, writes the files of the run, and makes the result.
func (m *measurement) conclude(seen *report.Run) (*Result, error) {
	if err := m.judge(seen); err != nil {
		return nil, err
	}
	if err := publish.WriteFiles(seen); err != nil {
		return nil, fmt.Errorf("SaveTo(%q): %w", m.into, err)
	}
	r := newResult(seen)
	r.failures = failuresOf(seen)
	var text strings.Builder
	for _, warning := range r.Warnings {
		fmt.Fprintf(&text, "warning: %s\n", warning)
	}
	if m.isBenchmark { // go test shows only ten lines of a benchmark
		fmt.Fprintln(&text, strings.Join(r.Answer, "\n"))
	} else if err := publish.Print(&text, seen, publish.PrintOptions{More: m.whereMore()}, publish.PagePath(seen)); err != nil {
		return nil, err
	}
	for _, f := range seen.Gates {
		if f.Passes {
			fmt.Fprintf(&text, "%s: %s; it passes because of UndecidedPasses\n", f.Outcome, seen.GateRun().DescribeGate(f))
		}
	}
	r.text = text.String()
	return r, nil
}

// whereMore says where the notes of the table are in full.
func (m *measurement) whereMore() string {
	if m.into == "" {
		return "in the report, with SaveTo"
	}
	return "in the report"
}

func (m *measurement) judge(seen *report.Run) error {
	var since *analysis.Diff
	if m.before != nil {
		var err error
		if since, err = analysis.NewDiff(m.before, seen.Summary); err != nil {
			return fmt.Errorf("Baseline(%q): %w", m.baseline, err)
		}
	}
	seen.Gates = analysis.JudgeConditions(m.conditions, seen.Summary, since)
	for i := range seen.Gates {
		seen.Gates[i].Passes = seen.Gates[i].Outcome == analysis.GateOpen && m.undecidedPass
	}
	return nil
}

// library reads scenarios for a program that contains a service of its own.
var library = plan.Library{HasOwn: true}

// newManifest makes the manifest of the run.
func (m *measurement) newManifest(warnings []string) (record.Manifest, error) {
	manifest, err := plan.Manifest(m.scenario, m.until, time.Now())
	manifest.Tool, manifest.Command, manifest.Warnings = toolVersion(), m.command(), warnings
	return manifest, err
}

// wordOf turns a test's name into the name of a run: lower-case letters, digits and dashes.
func wordOf(name string) string {
	return strings.Trim(notInWords().ReplaceAllString(strings.ToLower(name), "-"), "-")
}

var notInWords = pattern.Lazy(`[^a-z0-9]+`)

func reader() publish.Reader {
	return publish.Reader{Limits: check.DefaultLimits(), DeclareMissing: library.DeclareMissing}
}

// buildWarnings says what the test's program does besides its work.
func buildWarnings() (warnings []string) {
	if raceDetector {
		warnings = append(warnings, "this test was built with -race: all figures include the race detector's cost")
	}
	if testing.CoverMode() != "" {
		warnings = append(warnings, "this test was built with -cover: all figures include the cost of counting")
	}
	return warnings
}

// toolVersion returns wirelab's version in the build of this program.
func toolVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const path = "wirelab.dev"
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == path {
			return cmp.Or(strings.Trim(module.Version, "()"), "devel")
		}
	}
	return "devel"
}
