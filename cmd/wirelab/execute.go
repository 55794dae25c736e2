package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/view"
	"wirelab.dev/internal/wire/secure"
)

// outputFlags say where a run goes and how it is printed.
type outputFlags struct {
	directory string
	json      bool
	verbose   bool
	columns   columnsFlag
	dryRun    bool
	live      string // where the page is served meanwhile; empty: nowhere
}

func (o *outputFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.directory, "output", "o", "", "`directory` for the run (default: wirelab-runs/NAME-DATE)")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be measured and about how long it takes, and measure nothing")
	f.StringVar(&o.live, "live", "", "serve the report while the run goes on, at this `address` of this machine (default where none is given: a free port)")
	f.Lookup("live").NoOptDefVal = "127.0.0.1:0"
	o.registerPrinting(cmd)
}

// registerPrinting adds the flags that report has too.
func (o *outputFlags) registerPrinting(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print one JSON object on standard output; words go to standard error")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print all that can be said in words above the answer, and the notes of the table whole")
	o.columns.register(cmd)
}

// job is a scenario to be run.
type job struct {
	scenario *scenario.Scenario
	warnings []string // of what is missing for it
	targets  map[string]string
	trust    secure.Trust // of the targets
	patience patienceFlag
	until    *record.Until // nil: each cell as often as the scenario says
	output   outputFlags
	resume   bool
	fleet    *record.FleetWanted // nil: this machine measures
	load     *loadRun            // of a service of the user's own; nil: another kind of run
	gates    *gates              // nil: none
}

// runsDirectory is where runs go without -o.
const runsDirectory = "wirelab-runs"

// execute runs a job: its trials, then the analysis, then the report. An
// interrupted run is reported like any other.
func (a *app) execute(ctx context.Context, j job) error {
	if j.output.dryRun {
		return a.rehearse(&j)
	}
	if err := a.inUserNamespace(ctx, j.scenario); err != nil {
		return err
	}
	seen, status, err := a.perform(ctx, j)
	if seen == nil {
		return err
	}
	words := a.wordsOf(j)
	for _, step := range []func() error{
		func() error { return j.gates.judge(a, seen, status) },
		func() error { return a.publish(seen, j.output, words) },
		func() error { return j.gates.write(a, seen, words) },
	} {
		err = cmp.Or(err, step())
	}
	switch {
	case err != nil:
		return err
	case j.load.interrupted():
		fmt.Fprintln(a.stderr, "ended early: the figures are those until then")
		return exitError{code: exitInterrupted}
	case status == record.Interrupted:
		fmt.Fprintf(a.stderr, "interrupted: %d of %d trials are done; continue with `wirelab run --resume %s`\n", seen.Summary.Done, seen.Summary.Planned, seen.Directory)
		return exitError{code: exitInterrupted}
	}
	return exit(seen, verdict(seen.Summary, j.patience))
}

// wordsOf is where a job's words go: to standard error where something else has standard output.
func (a *app) wordsOf(j job) io.Writer {
	if j.output.json || j.gates.ownsOutput() {
		return a.stderr
	}
	return a.stdout
}

// perform measures a job's trials and reads what was measured. It returns the run even
// where the lab failed in the middle of it, with the lab's error.
func (a *app) perform(ctx context.Context, j job) (*report.Run, record.Status, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find wirelab's own program, to start workers: %w", err)
	}
	if err := refuseNetworks(ctx, j.scenario); err != nil {
		return nil, "", err
	}
	what, without, err := withCongestion(j.scenario)
	if err != nil {
		return nil, "", err
	}
	what, rebuilt, missing, err := a.withRebuilt(ctx, what)
	if err != nil {
		return nil, "", err
	}
	what, peers, unbuilt, err := a.withPeers(ctx, what)
	if err != nil {
		return nil, "", err
	}
	j.scenario, j.warnings = what, slices.Concat(j.warnings, without, missing, unbuilt)
	workshop := lab.New([]string{program, "worker"})
	workshop.Rebuilt, workshop.Peers = rebuilt, peers
	workshop.Targets, workshop.Trust, workshop.Seed = j.targets, j.trust, j.scenario.Seed
	workshop.Patience = j.patience.Patience
	if j.fleet != nil {
		controller, err := a.joinFleet(ctx, j.fleet, program, j.scenario, j.targets)
		if err != nil {
			return nil, "", err
		}
		defer controller.Close()
		workshop.Fleet = controller
	}
	if err := j.gates.since().check(workshop.Cells(planFor(j.scenario, j.until))); err != nil {
		return nil, "", err
	}
	if j.load == nil { // whose target was tried already
		if err := checkTargets(ctx, workshop, planFor(j.scenario, j.until)); err != nil {
			return nil, "", err
		}
	}
	pageAt, err := view.Listen(ctx, j.output.live)
	if err != nil {
		return nil, "", usage(err)
	}
	run, err := j.open(slices.Concat(j.warnings, workshop.Placement.Warnings))
	if err != nil {
		if pageAt != nil {
			err = errors.Join(err, pageAt.Close())
		}
		return nil, "", err
	}
	a.announce(workshop, j, run)
	labErr := a.measure(ctx, workshop, j, run, pageAt)
	status := record.Done
	switch {
	case labErr == nil && j.load.interrupted():
		status = record.Interrupted
	case labErr != nil && ctx.Err() != nil:
		status, labErr = record.Interrupted, nil
	case labErr != nil:
		status = record.Failed
	}
	if err := run.Finish(status); err != nil {
		return nil, status, fmt.Errorf("%w; what was measured is kept: continue with `wirelab run --resume %s`", errors.Join(labErr, err), run.Dir)
	}
	seen, err := a.readRun(run.Dir)
	if err != nil {
		return nil, status, cmp.Or(labErr, err)
	}
	return seen, status, labErr
}

// announce says what is to be measured, and what that could find.
func (a *app) announce(workshop *lab.Lab, j job, run *record.Run) {
	u := run.Manifest.Until
	most := planFor(j.scenario, u)
	fmt.Fprintf(a.stderr, "%s: %s into %s\n", cmp.Or(j.scenario.Title, j.scenario.Name), view.Trials(run.Manifest.Trials), run.Dir)
	for _, warning := range j.warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", warning)
	}
	if u != nil && u.Claims { // what is repeated depends on what will be found
		fmt.Fprintf(a.stderr, "repeats until %s: at most %d looks\n", sayGoal(u), len(u.Looks))
		return
	}
	if u != nil {
		last := *u
		last.Begun = len(u.Looks)
		most = planFor(j.scenario, &last)
		fmt.Fprintf(a.stderr, "repeats until %s: at most %d looks and %d trials\n", sayGoal(u), len(u.Looks), len(most))
	}
	if took := newEstimate(planFor(j.scenario, u), run).remaining(); took > time.Minute {
		fmt.Fprintf(a.stderr, "takes about %v on a quiet machine\n", took.Round(10*time.Second))
	}
	if text := outlook(workshop.Cells(most), u, run.Dir); text != "" {
		fmt.Fprintln(a.stderr, text)
	}
}

// progress shows how a run goes.
type progress interface {
	lab.QueueObserver
	Close()
}

// viewOf shows how a job goes.
func (a *app) viewOf(ctx context.Context, j *job, plan []scenario.Planned, run *record.Run) (progress, error) {
	if j.load != nil {
		return a.viewLoad(ctx, j, plan)
	}
	left := newEstimate(plan, run)
	shown := view.NewRun(a.stderr, view.Run{Look: lookInWords(run.Manifest.Until), Plan: plan, Order: lab.Order(plan), Standing: left.standing})
	return &estimated{shown, left}, nil
}

// lookInWords says which look is measured; nil, for a run without looks, gives "".
func lookInWords(u *record.Until) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("look %d of at most %d", u.Begun, len(u.Looks))
}

// estimated is a progress whose estimate of the time that is left is kept.
type estimated struct {
	progress
	estimate *estimate
}

// TrialBegins starts the trial's clock.
func (e *estimated) TrialBegins(trial record.PlannedTrial) {
	e.estimate.begins()
	e.progress.TrialBegins(trial)
}

// TrialEnds learns from the time that the trial took.
func (e *estimated) TrialEnds(number int, r *record.Record) {
	e.estimate.ends(number)
	e.progress.TrialEnds(number, r)
}

// TrialSetBack learns from the time that the trial took, and expects it again.
func (e *estimated) TrialSetBack(r *record.Record, why record.Check) {
	e.estimate.measured(r.Trial)
	e.progress.TrialSetBack(r, why)
}

// paged is a progress that also keeps the live page new.
type paged struct {
	progress
	page *view.Page
}

// TrialEnds is called when the trial's record is written.
func (p paged) TrialEnds(number int, r *record.Record) {
	p.progress.TrialEnds(number, r)
	p.page.TrialEnds()
}

// measure measures the trials of a run, of one look after the other where it repeats until
// something stands.
func (a *app) measure(ctx context.Context, workshop *lab.Lab, j job, run *record.Run, pageAt net.Listener) (err error) {
	var page *view.Page
	if pageAt != nil {
		page = view.ServePage(pageAt, func() (*report.Run, error) { return a.readRun(run.Dir) }, a.stderr)
		defer func() { err = errors.Join(err, page.Close()) }()
	}
	running, stop := j.load.start(ctx, workshop)
	defer stop()
	for {
		plan := planFor(j.scenario, run.Manifest.Until)
		progress, err := a.viewOf(ctx, &j, plan, run)
		if err != nil {
			return err
		}
		workshop.Observer = progress
		if page != nil {
			workshop.Observer = paged{progress, page}
		}
		err = workshop.Run(running, plan, run)
		progress.Close()
		if err != nil {
			return err
		}
		goesOn, err := a.look(run, j.scenario)
		if err != nil || !goesOn {
			return err
		}
		run.Manifest.Until.Begun++
		if err := run.Replan(lab.Order(planFor(j.scenario, run.Manifest.Until))); err != nil {
			return err
		}
	}
}

// open creates the run's directory, or opens the one to be resumed.
func (j *job) open(warnings []string) (*record.Run, error) {
	if j.resume {
		run, err := record.Resume(j.output.directory)
		if err != nil {
			return nil, usage(fmt.Errorf("--resume: %w", err))
		}
		return run, nil
	}
	order := lab.Order(planFor(j.scenario, j.until))
	now := time.Now()
	manifest := record.Manifest{
		Version: record.Version, Tool: version(), Command: commandLine(),
		Name: j.scenario.Name, Title: j.scenario.Title, Question: j.scenario.Question,
		Started: now, Status: record.Running, Seed: j.scenario.Seed,
		Trials: len(order), Order: order, Until: j.until, Fleet: j.fleet,
		Warnings: warnings,
	}
	var err error
	for _, part := range []struct {
		into  *json.RawMessage
		value any
	}{{&manifest.Scenario, j.kept()}, {&manifest.Declarations, declarations(j.scenario.Parts)}, {&manifest.Host, host.Describe()}} {
		if *part.into, err = json.Marshal(part.value); err != nil {
			return nil, fmt.Errorf("encode the manifest: %w", err)
		}
	}
	return createRun(j.output.directory, manifest, now)
}

// kept is the scenario as the run keeps it: without what is sent to a service, which may be
// secret, and the client's key.
func (j *job) kept() *scenario.Scenario {
	if j.load == nil {
		return j.scenario
	}
	kept := *j.scenario
	kept.Parts = slices.Clone(kept.Parts)
	for i := range kept.Parts {
		kept.Parts[i].Definition = ""
	}
	return &kept
}

// createRun begins a run in the directory that was asked for, or in one that is free.
func createRun(asked string, manifest record.Manifest, now time.Time) (*record.Run, error) {
	if asked == "" {
		return record.CreateFree(unnamed(manifest.Name, now), manifest)
	}
	run, err := record.Create(asked, manifest)
	if err != nil {
		return nil, usage(fmt.Errorf("-o: %w", err))
	}
	return run, nil
}

// unnamed is the directory of a run that nobody named, as far as it is free.
func unnamed(name string, now time.Time) string {
	return filepath.Join(runsDirectory, name+"-"+now.Format("20060102-150405"))
}

// publish writes the run's files, and prints what was found.
func (a *app) publish(seen *report.Run, output outputFlags, words io.Writer) error {
	if err := writeFiles(seen); err != nil {
		return err
	}
	if output.json {
		return report.WriteJSON(a.stdout, seen)
	}
	return printRun(words, seen, output, filepath.Join(seen.Directory, "report.html"))
}

// writeFiles writes the report and the table of cells into the run's directory.
func writeFiles(seen *report.Run) error {
	files := map[string]func(io.Writer, *report.Run) error{
		"report.html": report.WriteHTML,
		"cells.csv":   report.WriteCSV,
	}
	if name, has := report.StudyTableFile(seen.Summary); has {
		files[name] = report.WriteStudyTable
	}
	for name, write := range files {
		if err := writeFile(filepath.Join(seen.Directory, name), func(w io.Writer) error { return write(w, seen) }); err != nil {
			return err
		}
	}
	return writeProfiles(seen)
}

// writeProfiles writes the run's profiles for other tools, if it has any.
func writeProfiles(seen *report.Run) error {
	if len(seen.Summary.Profiles) == 0 {
		return nil
	}
	folder := filepath.Join(seen.Directory, report.ProfilesFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return report.WriteProfiles(seen, func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(folder, name)) })
}

// print shows the figures, then the claims, and last the answer: what stands last is read first.
func printRun(w io.Writer, seen *report.Run, output outputFlags, page string) error {
	terminal := report.TerminalOf(w)
	as := report.Table{Terminal: terminal, Columns: output.columns, Verbose: output.verbose}
	table := func() error { return report.WriteTable(w, seen.Summary, as) }
	if report.IsLoad(seen) && len(output.columns) == 0 {
		table = func() error { return report.WriteLoad(w, seen, terminal) }
	}
	if seen.Summary.IsSweep() && len(output.columns) == 0 {
		table = func() error { return report.WriteScaling(w, seen.Summary) }
	}
	if err := table(); err != nil {
		return err
	}
	if err := report.WriteTraces(w, seen.Summary); err != nil {
		return err
	}
	if err := report.WriteAllocators(w, seen.Summary); err != nil {
		return err
	}
	if err := report.WriteClaims(w, seen.Summary.Claims, terminal); err != nil {
		return err
	}
	if output.verbose {
		if err := printAll(w, seen, terminal); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, line := range seen.Answer {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "Report: %s\n", page)
	if len(seen.Summary.Insights) > 0 {
		fmt.Fprintf(w, "Why: wirelab explain %s\n", seen.Directory)
	}
	return nil
}

// printAll says all there is to say, and what other files the run has.
func printAll(w io.Writer, seen *report.Run, terminal report.Terminal) error {
	fmt.Fprintln(w)
	if err := report.WriteWords(w, seen.Advice, terminal); err != nil {
		return err
	}
	if len(seen.Summary.Profiles) > 0 {
		fmt.Fprintf(w, "\nProfiles, for go tool pprof and speedscope: %s\n", filepath.Join(seen.Directory, report.ProfilesFolder))
	}
	if name, has := report.StudyTableFile(seen.Summary); has {
		fmt.Fprintf(w, "\nScenarios: %s\n", filepath.Join(seen.Directory, name))
	}
	return nil
}

// readRun reads a run and judges its trials again.
func (a *app) readRun(directory string) (*report.Run, error) {
	return a.readRunBy(analysis.UsualCategories(), directory)
}

// readRunBy sorts what was seen of CPUs into the categories of a table.
func (a *app) readRunBy(categories *analysis.Categories, directory string) (*report.Run, error) {
	run, err := record.Open(directory)
	if err != nil {
		return nil, err
	}
	var records []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		records = append(records, &r)
	}
	if err := declareMissing(&run.Manifest); err != nil {
		return nil, err
	}
	judged := analysis.Judge(records, a.limits)
	summary, err := analysis.SummarizeBy(categories, &run.Manifest, judged)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", directory, err)
	}
	summary.Warnings = append(summary.Warnings, run.Warnings...)
	measured := slices.DeleteFunc(judged.Records, func(r *record.Record) bool { return r.Probe != "" })
	return &report.Run{Summary: summary, Records: measured, Answer: advice.Answer(summary), Advice: advice.Advise(summary), Directory: directory}, nil
}

// writeFile writes another file and renames it, so that no reader finds half a
// report.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := errors.Join(write(file), file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}
