package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
	"wirelab.dev/internal/show/view"
	"wirelab.dev/internal/wire/secure"
)

type outputFlags struct {
	directory string
	json      bool
	printing  publish.PrintOptions
	dryRun    bool
	unsaved   bool   // keep nothing on disk
	later     bool   // print the JSON object later, with the levers
	live      string // address for serving the page during the run; empty means no page
}

func (o *outputFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.directory, "output", "o", "", "`directory` for the run (default: wirelab-runs/NAME-DATE)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the planned trials and their approximate time, and measure nothing")
	f.StringVar(&o.live, "live", "", "serve the report during the run, at this `address` of this machine (without an address: a free port)")
	f.Lookup("live").NoOptDefVal = "127.0.0.1:0"
	o.registerPrinting(cmd, "compare plan")
}

// registerPrinting adds the output flags that the command report also has.
func (o *outputFlags) registerPrinting(cmd *cobra.Command, schemas string) {
	f := cmd.Flags()
	registerJSON(cmd, &o.json, schemas)
	f.BoolVarP(&o.printing.Verbose, "verbose", "v", false, "print all sentences above the answer, and the table's notes in full")
	f.Func("columns", "`figures` to show in the table instead of the usual ones, as in mean,P99.9,max; all shows every figure", func(text string) (err error) {
		o.printing.Columns, err = table.FindColumns(strings.Split(text, ","))
		return err
	})
	setCompletions(cmd, "columns", append(table.ColumnNames(), table.AllColumns))
}

// checkUnsaved refuses options that need a saved run.
func (o *outputFlags) checkUnsaved() error {
	switch {
	case o.unsaved && o.directory != "":
		return errors.New("--no-save and -o: give only one of them")
	case o.unsaved && o.live != "":
		return errors.New("--no-save and --live: the page shows a saved run: give only one of them")
	}
	return nil
}

// measureFlags holds the flags of commands that measure a scenario.
type measureFlags struct {
	output outputFlags
	until  untilFlags
	probes probeFlag
	gates  gateFlags
	fleet  fleetFlags
}

func (m *measureFlags) register(cmd *cobra.Command) {
	m.until.register(cmd)
	m.probes.register(cmd, scenario.Probes)
	m.gates.register(cmd)
	m.fleet.register(cmd)
	m.output.register(cmd)
}

// baseJob returns the job that measures s. running says that the scenario's servers already run.
func (m *measureFlags) baseJob(a *app, s *scenario.Scenario, running bool) (job, error) {
	machines, err := fleet.CheckFleetWanted(m.fleet.FleetWanted, running)
	if err != nil {
		return job{}, err
	}
	gates, err := m.gates.read(a, s.Parts, m.output.json)
	return job{scenario: s, fleet: machines, output: m.output, gates: gates}, err
}

// A job is a scenario to run, with options.
type job struct {
	scenario *scenario.Scenario
	warnings []string // one warning for each missing prerequisite
	targets  map[string]string
	services map[string]string // definitions of the user's services, by variant
	versions []*calledVersion  // of a load; with a fleet, the first call to each is made by an agent
	also     []int             // processes that belong to the service
	trust    secure.Trust      // which certificates of the targets to trust
	until    *record.Until     // when the repeats end; nil means after the scenario's number of repeats
	output   outputFlags
	resume   bool
	fleet    *record.FleetWanted          // the agents that measure; nil means that this machine measures
	finish   func(directory string) error // adds files to the run's directory; may be nil
	load     *loadRun                     // a load of a user's service; nil for any other run
	gates    gates
	try      *tryFlags // the levers to try after the comparison; may be nil
}

// execute measures, analyses and reports a job. An interrupted job is analysed and reported, too.
func (a *app) execute(ctx context.Context, j job) error {
	if j.output.dryRun {
		return a.printPlan(ctx, &j)
	}
	if err := a.rerunInUserNamespace(ctx, plan.NeedsNetwork(j.scenario)); err != nil {
		return err
	}
	seen, status, err := a.measureAndRead(ctx, j)
	if seen == nil {
		a.endPush(ctx, j.load, nil)
		return err
	}
	if err = a.report(ctx, j, seen, status, err); !j.try.wanted() {
		return err
	}
	if exit, is := errors.AsType[exitError](err); is && exit.code == exitInvalid && j.try.figure == matrix.CPU {
		err = nil // CPU time can be compared on a busy machine
	}
	var tried commandResult
	if err == nil {
		tried, err = a.try(ctx, seen, "", *j.try, outputFlags{})
	}
	levers, _ := tried.value.(publish.LeverReport)
	if j.output.json {
		return cmp.Or(levers.WriteJSONAfter(a.stdout, seen), err, tried.end)
	}
	if err != nil {
		return err
	}
	return cmp.Or(tried.words(a.textOutput(j)), tried.end)
}

// report judges the gates of a run, and prints the run. Its error names what makes the command fail.
func (a *app) report(ctx context.Context, j job, seen *report.Run, status record.Status, err error) error {
	if j.finish != nil {
		err = cmp.Or(err, j.finish(seen.Directory))
	}
	words := a.textOutput(j)
	for _, step := range []func() error{
		func() error { return j.gates.judge(seen, status) },
		func() error { a.endPush(ctx, j.load, seen.Gates); return nil },
		func() error { return a.publish(seen, j.output, words) },
		func() error { return j.load.writeSeries(seen) },
		func() error { return j.gates.write(a, seen, format.Writer(words)) },
	} {
		err = cmp.Or(err, step())
	}
	switch {
	case err != nil:
		return err
	case j.load.interrupted():
		fmt.Fprintln(a.stderr, "the load ended early: its figures cover the time until then")
		return exitError{code: exitInterrupted}
	case status == record.Interrupted && j.services != nil:
		fmt.Fprintf(a.stderr, "interrupted: %d of %d trials are done\n", seen.Summary.Done, seen.Summary.Planned)
		return exitError{code: exitInterrupted}
	case status == record.Interrupted:
		fmt.Fprintf(a.stderr, "interrupted: %d of %d trials are done; continue with `wirelab run --resume %s`\n", seen.Summary.Done, seen.Summary.Planned, seen.Directory)
		return exitError{code: exitInterrupted}
	}
	invalid := validityError(seen.Summary)
	if invalid != nil && j.gates.passInvalid(seen.Summary) {
		fmt.Fprintf(a.stderr, "%v; it passes because of --undecided pass\n", invalid)
		invalid = nil
	}
	if exit, is := errors.AsType[exitError](invalid); is && j.load != nil && !j.output.json && len(seen.Gates) == 0 {
		return exitError{code: exit.code} // the answer says why
	}
	return runError(seen, invalid)
}

// textOutput returns standard error if standard output carries JSON or a file.
func (a *app) textOutput(j job) io.Writer {
	if j.output.json || j.gates.usesStandardOutput() {
		return a.stderr
	}
	return a.stdout
}

// measureAndRead measures and reads a run. It returns the run even if the lab failed.
func (a *app) measureAndRead(ctx context.Context, j job) (*report.Run, record.Status, error) {
	program, err := ownProgram()
	if err != nil {
		return nil, "", err
	}
	prepared, err := plan.Prepare(ctx, j.scenario, a.stderr)
	if err != nil {
		return nil, "", err
	}
	j.scenario, j.warnings = prepared.Scenario, slices.Concat(j.warnings, prepared.Warnings, plan.NotInSlices(prepared.Scenario))
	workshop := lab.New([]string{program, "worker"})
	workshop.Rebuilt, workshop.Peers = prepared.Rebuilt, prepared.Peers
	workshop.Targets, workshop.Trust, workshop.Seed = j.targets, j.trust, j.scenario.Seed
	workshop.Definitions, workshop.Also = j.services, j.also
	workshop.Anchored = plan.HasAnchor(plan.Trials(j.scenario, j.until))
	if j.fleet != nil {
		controller, err := a.joinFleet(ctx, j.fleet, program, j.scenario, j.targets)
		if err != nil {
			return nil, "", err
		}
		defer controller.Close()
		workshop.Fleet = controller
		for _, v := range j.versions {
			if err := cmp.Or(v.waiting.Do(ctx, func() error { return controller.Visit(ctx, &v.first) }), j.define(v)); err != nil {
				return nil, "", err
			}
		}
	}
	if err := analysis.CheckCells(j.gates.baseline, j.gates.before, workshop.Cells(plan.Trials(j.scenario, j.until))); err != nil {
		return nil, "", usageError(err)
	}
	if j.services == nil { // the command load has already called its targets at this point
		if err := checkTargets(ctx, workshop, plan.Trials(j.scenario, j.until)); err != nil {
			return nil, "", err
		}
	}
	pageAt, err := view.ListenOnLoopback(ctx, j.output.live)
	if err != nil {
		return nil, "", usageError(err)
	}
	run, err := a.open(&j, slices.Concat(j.warnings, workshop.Placement.Warnings))
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
		return nil, status, fmt.Errorf("%w; finished trials are kept: continue with `wirelab run --resume %s`", errors.Join(labErr, err), run.Dir)
	}
	seen, err := a.reader().ReadRun(run)
	if err != nil {
		return nil, status, cmp.Or(labErr, err)
	}
	if lost := run.Lost(); lost != nil {
		seen.Directory = "" // nothing more can be written there
		labErr = cmp.Or(labErr, fmt.Errorf("the run is not saved: %w: %s", lost, adviceToSave))
	}
	return seen, status, labErr
}

// open creates a directory for the run. To resume a run, it opens the existing directory.
func (a *app) open(j *job, warnings []string) (*record.Run, error) {
	if j.resume {
		run, err := record.Resume(j.output.directory)
		if err != nil {
			return nil, usageError(fmt.Errorf("--resume: %w", err))
		}
		if j.until != nil {
			run.Manifest.Until = j.until
		}
		return run, nil
	}
	manifest, err := plan.Manifest(j.scenario, j.until, time.Now())
	if err != nil {
		return nil, err
	}
	manifest.SetBuild(build.Current())
	manifest.Command, manifest.Fleet, manifest.Warnings = commandLine(), j.fleet, warnings
	if j.load == nil {
		return createRun(j.output.directory, manifest)
	}
	if j.output.unsaved {
		return record.InMemory(manifest), nil
	}
	run, err := createRun(j.output.directory, manifest)
	switch {
	case err == nil:
		run.KeepInMemory()
	case j.output.directory == "": // the user did not ask for a directory, so its failure is no reason to measure nothing
		a.sayf("warning: this run is not saved: %v: %s", err, adviceToSave)
		return record.InMemory(manifest), nil
	}
	if _, unwritable := errors.AsType[*fs.PathError](err); unwritable {
		err = usageError(fmt.Errorf("%w: choose another directory, or save nothing with --no-save", err))
	}
	return run, err
}

// createRun creates a run in the directory asked. If asked is empty, it makes a new directory.
func createRun(asked string, manifest record.Manifest) (*record.Run, error) {
	if asked == "" {
		return record.CreateFree(plan.DefaultRunDirectory(manifest.Name, time.Now()), manifest)
	}
	run, err := record.Create(asked, manifest)
	if err != nil {
		return nil, usageError(fmt.Errorf("-o: %w", err))
	}
	return run, nil
}

// publish prints the figures, also if the run's files cannot be written.
func (a *app) publish(seen *report.Run, output outputFlags, words io.Writer) error {
	page, unsaved := publish.PagePath(seen), publish.WriteFiles(seen)
	if unsaved != nil {
		page, unsaved = "", fmt.Errorf("the report is not saved: %w: %s", unsaved, adviceToSave)
	}
	switch {
	case output.json && output.later:
		return unsaved
	case output.json:
		return cmp.Or(report.WriteJSON(a.stdout, seen), unsaved)
	}
	return cmp.Or(publish.Print(words, seen, output.printing, page), unsaved)
}

// adviceToSave follows an error that left a run without files.
const adviceToSave = "give a directory elsewhere with -o DIR, or save nothing with --no-save"

func (a *app) reader() publish.Reader {
	return publish.Reader{Limits: a.limits, DeclareMissing: scenarioLibrary.DeclareMissing}
}

// readRun reads a stored run and judges its trials again.
func (a *app) readRun(directory string) (*report.Run, error) { return a.reader().Read(directory) }

// printPlan prints a job's planned trials. For a resumed run it prints only the remaining trials.
func (a *app) printPlan(ctx context.Context, j *job) error {
	run, until, err := j.earlierRun()
	if err != nil {
		return err
	}
	buildable, missing, err := plan.WithoutMissingPeers(ctx, j.scenario)
	if err != nil {
		return err
	}
	r := plan.PreviewRun(buildable, until, run, j.output.directory)
	if j.output.json {
		for _, warning := range missing {
			a.sayf("warning: %s", warning)
		}
		return a.printJSON(r)
	}
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintln(a.stdout, r.Title)
	if r.Done > 0 {
		fmt.Fprintf(a.stdout, "%d trials are done; remaining: ", r.Done)
	}
	fmt.Fprintf(a.stdout, "%d trials of %d cells, about %v on a quiet machine, into %s\n", r.Trials, r.Cells, took, r.Directory)
	if until != nil {
		fmt.Fprintf(a.stdout, "repeats until %s\n", plan.DescribeEnd(until))
	}
	if j.try.wanted() {
		fmt.Fprintf(a.stdout, "then levers take turns with the slower cell, until %v after the start\n", j.try.budget)
	}
	for _, warning := range slices.Concat(j.warnings, missing, plan.NotInSlices(buildable)) {
		fmt.Fprintf(a.stdout, "warning: %s\n", warning)
	}
	return nil
}

// earlierRun returns the run to resume, or nil, and the condition that ends the job's repeats.
func (j *job) earlierRun() (*record.Run, *record.Until, error) {
	if j.resume {
		run, err := record.Open(j.output.directory)
		if err != nil {
			return nil, nil, usageError(fmt.Errorf("--resume: %w", err))
		}
		return run, run.Manifest.Until, nil
	}
	if _, err := record.ReadManifest(j.output.directory); err == nil && j.output.directory != "" {
		return nil, nil, usageError(fmt.Errorf("-o: %s already holds a run: choose another directory, or continue it with `wirelab run --resume %s`", j.output.directory, j.output.directory))
	}
	return nil, j.until, nil
}

// checkTargets calls each target before the run, because a broken target would fail all its trials.
func checkTargets(ctx context.Context, workshop *lab.Lab, plan []scenario.PlannedCell) error {
	if fault := workshop.TryTargets(ctx, plan); fault != nil {
		return fmt.Errorf("--target %s=%s: %s", fault.Variant, fault.Address, fault)
	}
	return nil
}
