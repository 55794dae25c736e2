package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/summary"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
	"wirelab.dev/internal/wire/peer"
)

type runFlags struct {
	measureFlags
	quick bool
	only  []string
	named plan.NamedPrograms
}

func (a *app) runCommand() *cobra.Command {
	var (
		s      runFlags
		resume string
	)
	cmd := &cobra.Command{
		Use:   "run STUDY|FILE",
		Short: "Run a published study or a scenario file",
		Long: `Run measures every cell of a scenario and reports it. STUDY is a study that wirelab
contains (see wirelab list); FILE is a scenario of your own (see wirelab init).
--resume continues an interrupted run, without losing finished trials. --until
repeats all cells until an answer is certain, as in wirelab compare.`,
		Example: `  wirelab run kernel-study --quick
  wirelab run kernel-study --only tail
  wirelab run fast-grpc --yardstick caddy       # fetches and builds it, the first time
  wirelab run client-bottleneck --peers cpp     # also with a client in C++
  wirelab run my.yaml -o results
  wirelab run my.yaml --probe life,cpu          # also show the stages of a call, and CPU time by function
  wirelab run my.yaml --until 3% --at-most 1h   # until each mean is known within 3 %
  wirelab run my.yaml --fail-if 'p99>20ms'      # a gate, with exit code 3 if a cell breaks it
  wirelab run kernel-study --dry-run            # how many trials, and about how long
  wirelab run my.yaml --fleet lab --client 'role=client*8'   # on the machines of a fleet
  wirelab run --resume results`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return plan.StudyNames(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if resume != "" {
				return a.resume(cmd, args, &s, resume)
			}
			if len(args) == 0 {
				return usageError(fmt.Errorf("name a study (%s) or a scenario file (see `wirelab run --help`)", strings.Join(plan.StudyNames(), ", ")))
			}
			j, err := s.newJob(a, cmd, args[0])
			if err != nil {
				return usageError(err)
			}
			return a.execute(cmd.Context(), j)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&s.quick, "quick", false, "run the smaller version that the scenario defines")
	f.StringSliceVar(&s.only, "only", nil, "run only these `parts` of the scenario, by name or pattern, as in table-*")
	f.StringSliceVar(&s.named.Yardsticks, "yardstick", nil, "other projects' `programs` to compare with, in parts that have such a comparison: "+strings.Join(plan.YardstickNames(), ", "))
	f.StringSliceVar(&s.named.Peers, "peers", nil, "`workers` in other languages to compare with, in parts that have such a comparison: "+strings.Join(peer.Names(), ", "))
	f.StringVar(&resume, "resume", "", "continue the run in this `directory`")
	s.measureFlags.register(cmd)
	setCompletions(cmd, "yardstick", plan.YardstickNames())
	setCompletions(cmd, "peers", peer.Names())
	return cmd
}

// newJob reads the scenario and applies the flags.
func (s *runFlags) newJob(a *app, cmd *cobra.Command, name string) (job, error) {
	what, err := scenarioLibrary.FindScenario(name)
	if err != nil {
		return job{}, err
	}
	if len(s.only) > 0 {
		if what, err = what.Only(s.only...); err != nil {
			return job{}, fmt.Errorf("--only: %w", err)
		}
	}
	if err := s.named.CheckNames(what); err != nil {
		return job{}, err
	}
	if s.quick {
		what = what.Quick()
	}
	what, missing, err := s.probes.apply(what, s.fleet, scenarioLibrary.Vocabulary())
	if err != nil {
		return job{}, err
	}
	var warnings []string
	if s.output.dryRun { // a dry run does not build programs
		what = s.named.AddTo(what)
	} else {
		what, warnings = s.named.InstallAndAdd(cmd.Context(), what, a.stderr)
	}
	until, err := s.until.read(cmd, what)
	if err != nil {
		return job{}, err
	}
	j, err := s.baseJob(a, what, false)
	j.warnings, j.until = slices.Concat(warnings, missing), until
	return j, err
}

// isImported reports whether a run was imported from other programs. It then has no scenario.
func isImported(run *record.Run) bool { return string(run.Manifest.Scenario) == summary.NoScenario }

// resume continues a run where it stopped, with the scenario of its manifest.
func (a *app) resume(cmd *cobra.Command, args []string, flags *runFlags, directory string) error {
	if err := refuseFlagsOfResume(cmd, args, "run with its own scenario", "quick", "only", "yardstick", "peers", "until", "at-most", "probe"); err != nil {
		return usageError(err)
	}
	run, err := record.Open(directory)
	if err != nil {
		return usageError(fmt.Errorf("--resume: %w", err))
	}
	if isImported(run) {
		return usageError(fmt.Errorf("--resume: %s was imported from another program, so it cannot be continued: import the new files as another run", directory))
	}
	if run.Manifest.Name == loadName {
		return usageError(fmt.Errorf("--resume: %s is a load, which cannot be continued: start a new load", directory))
	}
	s, err := scenario.Parse(directory+"/manifest.json", run.Manifest.Scenario, scenarioLibrary.Vocabulary())
	if err != nil {
		return usageError(fmt.Errorf("--resume: %w", err))
	}
	if u := run.Manifest.Until; u != nil {
		if err := u.Check(); err != nil {
			return usageError(fmt.Errorf("--resume: %s/manifest.json is damaged: %w", directory, err))
		}
	}
	j, err := flags.baseJob(a, s, false)
	if err != nil {
		return usageError(err)
	}
	if j.fleet, err = resumedFleet(j.fleet, run.Manifest.Fleet, cmd.Flags().Changed); err != nil {
		return usageError(fmt.Errorf("--resume: %s %w", directory, err))
	}
	j.output.directory, j.resume = directory, true
	return a.execute(cmd.Context(), j)
}

// refuseFlagsOfResume returns an error if --resume is given with arguments or any of these flags.
func refuseFlagsOfResume(cmd *cobra.Command, args []string, its string, flags ...string) error {
	if len(args) == 0 && !slices.ContainsFunc(append(flags, "output"), cmd.Flags().Changed) {
		return nil
	}
	return fmt.Errorf("--resume continues that %s: leave out the study, --%s and -o", its, strings.Join(flags, ", --"))
}

// resumedFleet returns the agents of the earlier run, but with the hub of the current command line.
func resumedFleet(now, then *record.FleetWanted, changed func(flag string) bool) (*record.FleetWanted, error) {
	switch {
	case now == nil:
		return then, nil
	case then == nil:
		return nil, errors.New("began without a fleet, and continues without one: leave out --fleet")
	case changed("server") && now.Server != then.Server, changed("client") && now.Client != then.Client:
		return nil, fmt.Errorf("began with --server %s --client %s, and continues with these: leave out both", then.Server, then.Client)
	}
	moved := *then
	moved.Hub, moved.TokenFile = now.Hub, now.TokenFile
	return &moved, nil
}

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a scenario file to start from",
		Example: `  wirelab init my.yaml
  wirelab run my.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "wirelab.yaml"
			if len(args) > 0 {
				name = args[0]
			}
			file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return usageError(fmt.Errorf("%s already exists: name another file", name))
			}
			if err != nil {
				return err
			}
			_, err = file.Write(scenario.Starter())
			if err := errors.Join(err, file.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "wrote %s; measure it with `wirelab run %s`\n", name, name)
			return err
		},
	}
}

type replicateFlags struct {
	plan.Replication
	json bool
}

func (a *app) replicateCommand() *cobra.Command {
	var (
		r      replicateFlags
		resume string
	)
	cmd := &cobra.Command{
		Use:   "replicate [STUDY|FILE…]",
		Short: "Check which claims of published studies hold on this machine",
		Long: `Replicate measures what the claims of studies need, and gives each claim a verdict
with a reason: compatible, larger or smaller than claimed, not seen, refuted,
reversed, not put to the test, underpowered, refused or not measured. Claims of
studies and wirelab's own are counted apart.

It measures only the cells that a claim needs: once, then twice more if the claim
can be tested here. After all studies have had their turn, it repeats the cells of
open claims until the time is over. It compares ratios, shapes
and places, because machines differ.

Without a STUDY it measures all built-in studies. The directory gets a report of each
study, and the claims as claims.html, claims.json, claims.md and claims.xml (JUnit).`,
		Example: `  wirelab replicate --quick                    # all studies, in 15 minutes
  wirelab replicate kernel-study --quick
  wirelab replicate --budget 8h -o results
  wirelab replicate --resume results
  wirelab replicate --quick --json | jq '.studies[].claims[] | {row, outcome}'`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenarioLibrary.StudiesWithClaims(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if resume != "" {
				if err := refuseFlagsOfResume(cmd, args, "replication with its own studies", "quick", "all", "budget", "yardstick", "peers"); err != nil {
					return usageError(err)
				}
				if err := r.Resume(scenarioLibrary, resume); err != nil {
					return usageError(fmt.Errorf("--resume: %w", err))
				}
			} else if err := r.ChooseStudies(scenarioLibrary, args); err != nil {
				return usageError(err)
			}
			if err := a.rerunInUserNamespace(cmd.Context(), slices.ContainsFunc(r.Scenarios, plan.NeedsNetwork)); err != nil {
				return err
			}
			if resume == "" {
				if err := r.WriteNew(); err != nil {
					return usageError(err)
				}
			}
			return a.replicate(cmd.Context(), &r)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.Quick, "quick", false, "windows of 0.4 s, or 1.2 s where that is too short, and at most 9 repeats, in 15 minutes")
	f.BoolVar(&r.All, "all", false, "also wirelab's claims about its own libraries, not only published claims")
	f.DurationVar(&r.Budget, "budget", 0, "the `time` for all studies together: repeats that would take longer are not started (default: 15m with --quick, else 5h)")
	f.StringSliceVar(&r.Yardstick, "yardstick", nil, "other projects' `programs` that claims are about: "+strings.Join(plan.YardstickNames(), ", "))
	f.StringSliceVar(&r.Peers, "peers", nil, "`workers` in other languages that claims are about, instead of all that can be built here: "+strings.Join(peer.Names(), ", "))
	f.StringVarP(&r.Directory, "output", "o", "", "`directory` for the runs (default: wirelab-runs/replicate-DATE)")
	f.StringVar(&resume, "resume", "", "continue the replication in this `directory`")
	registerJSON(cmd, &r.json, "replicate")
	setCompletions(cmd, "yardstick", plan.YardstickNames())
	setCompletions(cmd, "peers", peer.Names())
	setCompletions(cmd, "budget", []string{"15m", "1h", "8h"})
	return cmd
}

// replicate measures one study after another. It prints the outcomes even after an interruption.
func (a *app) replicate(ctx context.Context, r *replicateFlags) error {
	began, machine := time.Now(), host.Describe()
	all := &gate.Replication{Started: began, Quick: r.Quick, Host: machine.Summary()}
	jobs, untils := make([]job, len(r.Studies)), make([]*record.Until, len(r.Studies))
	outcomes, failures, spent := make([]gate.StudyOutcome, len(jobs)), make([]error, len(jobs)), make([]time.Duration, len(jobs))
	for i, name := range r.Studies {
		study, err := r.PlanStudy(ctx, scenarioLibrary, name, a.stderr)
		if err != nil {
			return usageError(err)
		}
		jobs[i] = job{
			scenario: study.Scenario, warnings: study.Warnings, until: study.Until, resume: study.Resume,
			output: outputFlags{directory: study.Directory},
		}
		untils[i] = study.Until
		outcomes[i] = publish.UnmeasuredStudy(study.Scenario, "interrupted before this study")
	}
	for _, secondPass := range []bool{false, true} {
		for i := range jobs {
			if ctx.Err() != nil || failures[i] != nil || !r.SetTime(secondPass, i, untils, spent, time.Since(began)) {
				continue
			}
			what := words.Count(len(jobs[i].scenario.Claims), "claim")
			if secondPass {
				what = words.Count(*untils[i].Looks[untils[i].Begun-1].Open, "open claim") + " again"
			}
			fmt.Fprintf(a.stderr, "\nstudy %d of %d: %s, %s\n", i+1, len(jobs), r.Studies[i], what)
			start := time.Now()
			outcome, err := a.replicateStudy(ctx, jobs[i])
			spent[i] += time.Since(start)
			jobs[i].resume = true
			if err != nil {
				failures[i] = fmt.Errorf("%s: %w", r.Studies[i], err)
				outcome = publish.UnmeasuredStudy(jobs[i].scenario, err.Error())
			}
			outcomes[i] = outcome
		}
	}
	for i, study := range outcomes {
		study.Name, study.Run = r.Studies[i], filepath.Base(jobs[i].output.directory)
		all.Add(study)
	}
	all.Finish(time.Since(began))
	if err := a.printReplication(r, all); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "interrupted; continue with `wirelab replicate --resume %s`\n", r.Directory)
		return exitError{code: exitInterrupted}
	}
	return errors.Join(failures...)
}

// replicateStudy measures a study. It only reads the run if the study has been measured already.
func (a *app) replicateStudy(ctx context.Context, j job) (gate.StudyOutcome, error) {
	if j.resume && j.until.Ended != "" {
		seen, err := a.readRun(j.output.directory)
		if err != nil {
			return gate.StudyOutcome{}, err
		}
		return publish.StudyOutcome(seen, record.Done), nil
	}
	seen, status, err := a.measureAndRead(ctx, j)
	if seen == nil {
		return gate.StudyOutcome{}, err
	}
	if err := errors.Join(err, publish.WriteFiles(seen)); err != nil {
		return gate.StudyOutcome{}, err
	}
	return publish.StudyOutcome(seen, status), nil
}

// printReplication writes the replication's files, and prints one line per published claim.
func (a *app) printReplication(r *replicateFlags, all *gate.Replication) error {
	if err := publish.WriteReplication(r.Directory, all); err != nil {
		return err
	}
	if r.json {
		return report.WriteIndented(a.stdout, all)
	}
	if err := gate.WriteReplication(a.stdout, all, format.TerminalOf(a.stdout)); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Report: %s\n", filepath.Join(r.Directory, "claims.html"))
	return nil
}
