package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/wire/peer"
)

// replication is what replicate is asked for. It is kept beside the runs, so that it can be
// continued.
type replication struct {
	Studies   []string      `json:"studies"`
	Quick     bool          `json:"quick"`
	All       bool          `json:"all"`
	Budget    time.Duration `json:"budget_ns"`
	Yardstick []string      `json:"yardstick"`
	Peers     []string      `json:"peers,omitempty"`

	scenarios []*scenario.Scenario // of Studies
	patience  patienceFlag
	directory string
	json      bool
}

const (
	// quickWindow is long enough for a thousand calls of the slowest cell that a claim asks
	// the P99 of.
	quickWindow = scenario.Duration(400 * time.Millisecond)
	quickBudget = 15 * time.Minute
	fullBudget  = 5 * time.Hour
	// The repeats of a claim that stays open.
	mostQuickRepeats, mostRepeatsOfClaim = 9, 30

	replicationPlan = "replicate.json"
)

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
			return claimingStudies(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if resume != "" {
				changed := cmd.Flags().Changed
				if len(args) > 0 || changed("quick") || changed("all") || changed("budget") || changed("yardstick") || changed("peers") || changed("output") {
					return usage(errors.New("--resume continues that replication with its own studies: give no study, --quick, --all, --budget, --yardstick, --peers or -o with it"))
				}
				if err := r.read(resume); err != nil {
					return usage(fmt.Errorf("--resume: %w", err))
				}
			} else if err := r.choose(args); err != nil {
				return usage(err)
			}
			if err := a.inUserNamespace(cmd.Context(), r.scenarios...); err != nil {
				return err
			}
			if resume == "" {
				if err := r.begin(); err != nil {
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
	f.StringSliceVar(&r.Yardstick, "yardstick", nil, "other projects' `programs` that claims are about: "+strings.Join(yardstickNames(), ", "))
	f.StringSliceVar(&r.Peers, "peers", nil, "`workers` in other languages that claims are about: "+strings.Join(peer.Names(), ", "))
	f.StringVarP(&r.directory, "output", "o", "", "`directory` for the runs (default: wirelab-runs/replicate-DATE)")
	f.StringVar(&resume, "resume", "", "continue the replication in this `directory`")
	f.BoolVar(&r.json, "json", false, "print one JSON object on standard output; words go to standard error")
	r.patience.register(f)
	complete(cmd, "yardstick", yardstickNames())
	complete(cmd, "peers", peer.Names())
	complete(cmd, "budget", []string{"15m", "1h", "8h"})
	return cmd
}

func (r *replication) named() named { return named{r.Yardstick, r.Peers} }

// claimingStudies are those that have claims of something published.
func claimingStudies() []string {
	return slices.DeleteFunc(studyNames(), func(name string) bool {
		s, err := readStudy(name)
		return err != nil || !slices.ContainsFunc(s.Claims, func(c scenario.Claim) bool { return c.Row != "" })
	})
}

// choose checks the studies that are named, and fills in what was left out.
func (r *replication) choose(names []string) error {
	if r.Studies = names; len(names) == 0 {
		r.Studies = claimingStudies()
	}
	var parts []scenario.Part
	for i, name := range r.Studies {
		if slices.Contains(r.Studies[:i], name) {
			return fmt.Errorf("%s is named twice", name)
		}
		s, err := readScenario(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Claims, func(c scenario.Claim) bool { return r.wants(&c) }) {
			return fmt.Errorf("%s claims nothing that was published: name one of %s, or give --all for its other claims", name, strings.Join(claimingStudies(), ", "))
		}
		parts = append(parts, s.Parts...)
		r.scenarios = append(r.scenarios, s)
	}
	if err := r.named().check(&scenario.Scenario{Name: strings.Join(r.Studies, ", "), Parts: parts}); err != nil {
		return err
	}
	switch {
	case r.Budget < 0:
		return fmt.Errorf("--budget: want a time above 0, found %v", r.Budget)
	case r.Budget == 0 && r.Quick:
		r.Budget = quickBudget
	case r.Budget == 0:
		r.Budget = fullBudget
	}
	return nil
}

// wants reports whether a claim is to be judged.
func (r *replication) wants(c *scenario.Claim) bool { return c.Row != "" || r.All }

// begin makes the directory, with the plan in it.
func (r *replication) begin() error {
	plan, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if r.directory == "" {
		r.directory, err = record.MakeFree(unnamed("replicate", time.Now()))
	} else {
		err = os.MkdirAll(r.directory, 0o755)
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(r.directory, replicationPlan), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("-o: %s holds a replication already: continue it with --resume %s, or name another directory", r.directory, r.directory)
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	_, err = file.Write(append(plan, '\n'))
	return errors.Join(err, file.Close())
}

// read reads the plan of a replication that was begun.
func (r *replication) read(directory string) error {
	text, err := os.ReadFile(filepath.Join(directory, replicationPlan))
	if err != nil {
		return err
	}
	patience, asJSON := r.patience, r.json
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(directory, replicationPlan), err)
	}
	r.patience, r.json, r.directory = patience, asJSON, directory
	return r.choose(r.Studies)
}

// replicate measures study after study, and tells what came out, also where it was
// interrupted.
func (a *app) replicate(ctx context.Context, r *replication) error {
	began := time.Now()
	all := &report.Replication{Started: began, Quick: r.Quick, Host: hostInWords()}
	jobs := make([]job, len(r.Studies))
	trials := make([]int, len(jobs))
	for i, name := range r.Studies {
		var err error
		if jobs[i], err = a.claimsJob(ctx, r, name); err != nil {
			return usage(err)
		}
		trials[i] = len(planFor(jobs[i].scenario, jobs[i].until))
	}
	var failures []error
	for i := range jobs {
		if ctx.Err() != nil {
			break
		}
		// What one study leaves of its time goes to those behind it.
		left, rest := max(0, r.Budget-time.Since(began)), 0
		for _, n := range trials[i:] {
			rest += n
		}
		jobs[i].until.TimeNS = max(1, int64(float64(left)*float64(trials[i])/float64(rest)))
		fmt.Fprintf(a.stderr, "\nstudy %d of %d: %s, %d claims\n", i+1, len(jobs), r.Studies[i], len(jobs[i].scenario.Claims))
		study, err := a.replicateStudy(ctx, jobs[i])
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", r.Studies[i], err))
			study = unmeasured(&jobs[i], err.Error())
		}
		study.Name, study.Run = r.Studies[i], filepath.Base(jobs[i].output.directory)
		all.Add(study)
	}
	for i := len(all.Studies); i < len(jobs); i++ {
		study := unmeasured(&jobs[i], "interrupted before it")
		study.Name, study.Run = r.Studies[i], filepath.Base(jobs[i].output.directory)
		all.Add(study)
	}
	all.Finish(time.Since(began))
	if err := a.tell(r, all); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "interrupted; continue with `wirelab replicate --resume %s`\n", r.directory)
		return exitError{code: exitInterrupted}
	}
	return errors.Join(failures...)
}

// claimsJob plans what a study's claims need. A study that was begun goes on.
func (a *app) claimsJob(ctx context.Context, r *replication, name string) (job, error) {
	what, err := readScenario(name)
	if err != nil {
		return job{}, err
	}
	j := job{patience: r.patience, output: outputFlags{directory: filepath.Join(r.directory, what.Name)}}
	if run, err := record.Open(j.output.directory); err == nil {
		j.scenario, err = scenario.Parse(j.output.directory+"/manifest.json", run.Manifest.Scenario, vocabulary())
		j.until, j.resume = run.Manifest.Until, true
		return j, err
	}
	if r.Quick {
		what = what.Brief(quickWindow)
	}
	what, j.warnings = a.with(ctx, what, r.named())
	if j.scenario, err = what.ForClaims(r.wants, leastRepeats); err != nil {
		return job{}, fmt.Errorf("%s: %w", name, err)
	}
	most := mostRepeatsOfClaim
	if r.Quick {
		most = mostQuickRepeats
	}
	j.until = &record.Until{Claims: true, Looks: analysis.Looks(leastRepeats, most), Begun: 1}
	return j, nil
}

// replicateStudy measures a study, unless it was measured before.
func (a *app) replicateStudy(ctx context.Context, j job) (report.Replicated, error) {
	if j.resume && j.until.Ended != "" {
		seen, err := a.readRun(j.output.directory)
		if err != nil {
			return report.Replicated{}, err
		}
		return replicated(seen, record.Done), nil
	}
	seen, status, err := a.perform(ctx, j)
	if seen == nil {
		return report.Replicated{}, err
	}
	if err := errors.Join(err, writeFiles(seen)); err != nil {
		return report.Replicated{}, err
	}
	return replicated(seen, status), nil
}

func replicated(seen *report.Run, status record.Status) report.Replicated {
	s := seen.Summary
	study := report.Replicated{Title: s.Title, Trials: s.Done, Valid: s.Done - s.Invalid - s.Failed, Claims: s.Claims}
	if status == record.Interrupted {
		study.Note = fmt.Sprintf("interrupted after %d of %d trials", s.Done, s.Planned)
	}
	return study
}

// unmeasured is a study of which nothing is known, so that none of its claims is left out.
func unmeasured(j *job, why string) report.Replicated {
	study := report.Replicated{Title: j.scenario.Title, Note: why}
	for _, c := range j.scenario.Claims {
		study.Claims = append(study.Claims, analysis.Claim{Row: c.Row, Says: c.Says, But: c.But, Part: c.Part, Find: c.Find, Outcome: analysis.Unmeasured, Reason: why})
	}
	return study
}

// replicationFiles are written beside the runs.
var replicationFiles = map[string]func(io.Writer, *report.Replication) error{
	"claims.html": report.WriteReplicationHTML,
	"claims.json": report.WriteReplicationJSON,
	"claims.md":   report.WriteReplicationMarkdown,
	"claims.xml":  report.WriteReplicationJUnit,
}

// tell writes the files, and prints a line a claim.
func (a *app) tell(r *replication, all *report.Replication) error {
	for name, write := range replicationFiles {
		if err := writeFile(filepath.Join(r.directory, name), func(w io.Writer) error { return write(w, all) }); err != nil {
			return err
		}
	}
	if r.json {
		return report.WriteReplicationJSON(a.stdout, all)
	}
	if err := report.WriteReplication(a.stdout, all, report.TerminalOf(a.stdout)); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Report: %s\n", filepath.Join(r.directory, "claims.html"))
	return nil
}

// hostInWords is what the claims were judged on.
func hostInWords() string {
	info := host.Describe()
	return fmt.Sprintf("%s with %d CPUs, %s %s, Go %s", info.CPUModel, len(info.Topology.Allowed), info.OS, info.Kernel, strings.TrimPrefix(info.Go.Version, "go"))
}
