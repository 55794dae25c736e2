package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
	"wirelab.dev/internal/wire/peer"
)

// A replication holds the flags of replicate.
type replication struct {
	plan.Replication
	patience lab.Patience
	json     bool
}

func (a *app) replicateCommand() *cobra.Command {
	var (
		r      replication
		resume string
	)
	cmd := &cobra.Command{
		Use:   "replicate [STUDY|FILE…]",
		Short: "Say which claims of published studies hold on this machine",
		Long: `Replicate measures what the claims of studies need, and says of each whether it
holds here: compatible, larger or smaller than claimed, refuted, underpowered,
or not measured, and why. Only the cells that a claim needs are measured, three
times each, and then again those of claims that are still open, until the time
is over. What is compared are ratios, shapes and places, since machines differ.

Without a STUDY, all that wirelab contains. The directory gets a report of each
study, and the claims as claims.html, claims.json, claims.md and claims.xml (JUnit).`,
		Example: `  wirelab replicate --quick                    # all studies, in 15 minutes
  wirelab replicate kernel-study --quick
  wirelab replicate --budget 8h -o results
  wirelab replicate --resume results
  wirelab replicate --quick --json | jq '.studies[].claims[] | {row, outcome}'`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenarios.ClaimingStudies(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if resume != "" {
				changed := cmd.Flags().Changed
				if len(args) > 0 || changed("quick") || changed("all") || changed("budget") || changed("yardstick") || changed("peers") || changed("output") {
					return usage(errors.New("--resume continues that replication with its own studies: give no study, --quick, --all, --budget, --yardstick, --peers or -o with it"))
				}
				if err := r.Resume(scenarios, resume); err != nil {
					return usage(fmt.Errorf("--resume: %w", err))
				}
			} else if err := r.Choose(scenarios, args); err != nil {
				return usage(err)
			}
			if err := a.inUserNamespace(cmd.Context(), slices.ContainsFunc(r.Scenarios, plan.NeedsNetwork)); err != nil {
				return err
			}
			if resume == "" {
				if err := r.Begin(); err != nil {
					return usage(err)
				}
			}
			return a.replicate(cmd.Context(), &r)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.Quick, "quick", false, "windows of 0.4 s and at most 9 repeats, in 15 minutes")
	f.BoolVar(&r.All, "all", false, "also what wirelab claims of its own libraries, and not only what was published")
	f.DurationVar(&r.Budget, "budget", 0, "the `time` for all studies together: no more repeats are begun that would take longer (default: 15m with --quick, else 5h)")
	f.StringSliceVar(&r.Yardstick, "yardstick", nil, "other projects' `programs` that claims are about: "+strings.Join(plan.YardstickNames(), ", "))
	f.StringSliceVar(&r.Peers, "peers", nil, "`workers` in other languages that claims are about: "+strings.Join(peer.Names(), ", "))
	f.StringVarP(&r.Directory, "output", "o", "", "`directory` for the runs (default: wirelab-runs/replicate-DATE)")
	f.StringVar(&resume, "resume", "", "continue the replication in this `directory`")
	f.BoolVar(&r.json, "json", false, "print one JSON object on standard output; words go to standard error")
	registerPatience(f, &r.patience)
	complete(cmd, "yardstick", plan.YardstickNames())
	complete(cmd, "peers", peer.Names())
	complete(cmd, "budget", []string{"15m", "1h", "8h"})
	return cmd
}

// replicate measures one study after the other, and prints the outcome, even after an
// interruption.
func (a *app) replicate(ctx context.Context, r *replication) error {
	began, machine := time.Now(), host.Describe()
	all := &gate.Replication{Started: began, Quick: r.Quick, Host: machine.InWords()}
	jobs := make([]job, len(r.Studies))
	trials := make([]int, len(jobs))
	for i, name := range r.Studies {
		study, err := r.Plan(ctx, scenarios, name, a.stderr)
		if err != nil {
			return usage(err)
		}
		jobs[i] = job{
			scenario: study.Scenario, warnings: study.Warnings, until: study.Until, resume: study.Resume,
			patience: r.patience, output: outputFlags{directory: study.Directory},
		}
		trials[i] = len(plan.Trials(study.Scenario, study.Until))
	}
	var failures []error
	for i := range jobs {
		if ctx.Err() != nil {
			break
		}
		jobs[i].until.TimeNS = r.TimeFor(i, trials, time.Since(began))
		fmt.Fprintf(a.stderr, "\nstudy %d of %d: %s, %d claims\n", i+1, len(jobs), r.Studies[i], len(jobs[i].scenario.Claims))
		study, err := a.replicateStudy(ctx, jobs[i])
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", r.Studies[i], err))
			study = publish.Unmeasured(jobs[i].scenario, err.Error())
		}
		study.Name, study.Run = r.Studies[i], filepath.Base(jobs[i].output.directory)
		all.Add(study)
	}
	for i := len(all.Studies); i < len(jobs); i++ {
		study := publish.Unmeasured(jobs[i].scenario, "interrupted before it")
		study.Name, study.Run = r.Studies[i], filepath.Base(jobs[i].output.directory)
		all.Add(study)
	}
	all.Finish(time.Since(began))
	if err := a.tell(r, all); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "interrupted; continue with `wirelab replicate --resume %s`\n", r.Directory)
		return exitError{code: exitInterrupted}
	}
	return errors.Join(failures...)
}

// replicateStudy measures a study, unless it was measured before.
func (a *app) replicateStudy(ctx context.Context, j job) (gate.Replicated, error) {
	if j.resume && j.until.Ended != "" {
		seen, err := a.readRun(j.output.directory)
		if err != nil {
			return gate.Replicated{}, err
		}
		return publish.Replicated(seen, record.Done), nil
	}
	seen, status, err := a.perform(ctx, j)
	if seen == nil {
		return gate.Replicated{}, err
	}
	if err := errors.Join(err, publish.WriteFiles(seen)); err != nil {
		return gate.Replicated{}, err
	}
	return publish.Replicated(seen, status), nil
}

// tell writes the files, and prints one line per claim.
func (a *app) tell(r *replication, all *gate.Replication) error {
	if err := publish.WriteReplication(r.Directory, all); err != nil {
		return err
	}
	if r.json {
		return report.WriteReplicationJSON(a.stdout, all)
	}
	if err := gate.WriteReplication(a.stdout, all, format.TerminalOf(a.stdout)); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Report: %s\n", filepath.Join(r.Directory, "claims.html"))
	return nil
}
