package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/selftest"
)

// selftesting is what the flags of selftest say.
type selftesting struct {
	only        string
	list, json  bool
	machineWide bool
	chosen      []selftest.Situation
	program     string
}

func (a *app) selftestCommand() *cobra.Command {
	var s selftesting
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Falsify trials on purpose, and say which of it wirelab notices on this machine",
		Long: `Selftest stages situations that make a measurement false: a process that takes the
server's CPU, a server that leaves out its work, connections that are reset, and
more. Around each it measures one trial, and says whether the judge noticed, by
which check, and how far the figure moved. Each has an honest twin, the same thing
without its effect, which should be valid.

It takes about three minutes. Some situations need root, or control groups; those
that cannot be staged are listed with the reason. Exit code 4 means that a false
figure passed unnoticed, or that more than one honest twin in 30 was refused.`,
		Example: `  wirelab selftest
  sudo wirelab selftest --only 'burner|quota'
  wirelab selftest --list
  wirelab selftest --json | jq -r '.situations[] | select(.class == "passed") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pattern, err := regexp.Compile(s.only)
			if err != nil {
				return usage(fmt.Errorf("--only: %w", err))
			}
			if s.chosen = selftest.Select(pattern); len(s.chosen) == 0 {
				return usage(fmt.Errorf("--only %s: no situation has such a name; `wirelab selftest --list` shows all", s.only))
			}
			if s.list {
				return a.listSituations(s.chosen, s.json)
			}
			if s.program, err = os.Executable(); err != nil {
				return fmt.Errorf("find wirelab's own program, to start workers: %w", err)
			}
			if err := a.inUserNamespace(cmd.Context(), true); err != nil {
				return err
			}
			return a.selftest(cmd.Context(), &s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.only, "only", "", "stage the situations whose names match this `pattern`")
	f.BoolVar(&s.list, "list", false, "print the situations, and stage none")
	f.BoolVar(&s.json, "json", false, "print one JSON object on standard output; words go to standard error")
	f.BoolVar(&s.machineWide, "machine-wide", false, "also stage what disturbs every program on the machine, as a step of its clock does")
	complete(cmd, "only", each(selftest.Situations(), func(s selftest.Situation) string { return s.Name }))
	return cmd
}

func (a *app) listSituations(all []selftest.Situation, asJSON bool) error {
	if asJSON {
		return a.printJSON(map[string]any{"version": selftestVersion, "situations": all})
	}
	for _, s := range all {
		fmt.Fprintf(a.stdout, "%-16s %s\n%-16s twin: %s\n", s.Name, s.Lie, "", s.Twin)
	}
	return nil
}

// selftestVersion is the form of selftest's JSON.
const selftestVersion = 1

// selftestResult is selftest's JSON.
type selftestResult struct {
	Version    int                    `json:"version"`
	Placement  host.Placement         `json:"placement"`
	Situations []selftest.Verdict     `json:"situations"`
	Classes    map[selftest.Class]int `json:"classes"` // how many situations are of each
	Twins      int                    `json:"twins"`
	Refused    int                    `json:"refused"` // twins that are invalid
}

func (r *selftestResult) add(v selftest.Verdict) {
	r.Situations = append(r.Situations, v)
	r.Classes[v.Class]++
	if v.Honest != nil {
		r.Twins++
	}
	if v.Refused != nil {
		r.Refused++
	}
}

// refusedAtMost is how many of so many honest twins may be refused: one in 30, and one
// where there are fewer.
func refusedAtMost(twins int) int { return max(1, twins/30) }

func (a *app) selftest(ctx context.Context, s *selftesting) error {
	began := time.Now()
	words := a.stdout
	if s.json {
		words = a.stderr
	}
	g := selftest.Runner{
		Worker: []string{s.program, "worker"}, Actor: []string{s.program, "disturb"}, MachineWide: s.machineWide,
		Patience: 5 * time.Second,
	}
	result := selftestResult{Version: selftestVersion, Placement: lab.New(g.Worker).Placement, Classes: map[selftest.Class]int{}}
	fmt.Fprintf(a.stderr, "%d situations and their twins, some 3 s each\n", len(s.chosen))
	for i, situation := range s.chosen {
		v, err := g.Examine(ctx, situation)
		if err != nil {
			if ctx.Err() != nil {
				fmt.Fprintf(a.stderr, "interrupted: %d of %d situations were staged\n", i, len(s.chosen))
				return exitError{code: exitInterrupted}
			}
			return err
		}
		result.add(v)
		fmt.Fprintf(words, "%2d/%d %s\n", i+1, len(s.chosen), describe(v))
	}
	fmt.Fprintf(words, "\n%s, in %v\n", totals(result), time.Since(began).Round(time.Second))
	if s.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
	}
	if passed, unclear := result.Classes[selftest.Passed], result.Classes[selftest.Unclear]; passed+unclear > 0 || result.Refused > refusedAtMost(result.Twins) {
		return exitError{exitInvalid, fmt.Errorf("false figures that passed unnoticed: %d; that could not be told from what else goes on here: %d; honest twins that were refused: %d of %d",
			passed, unclear, result.Refused, result.Twins)}
	}
	return nil
}

func totals(r selftestResult) string {
	return fmt.Sprintf("%d of %d situations were staged: %d noticed, %d harmless and not noticed, %d passed unnoticed, %d unclear; %d of %d honest twins were refused",
		len(r.Situations)-r.Classes[selftest.NotStaged], len(r.Situations), r.Classes[selftest.Noticed], r.Classes[selftest.Harmless],
		r.Classes[selftest.Passed], r.Classes[selftest.Unclear], r.Refused, r.Twins)
}

// describe is a situation's verdict in a few lines.
func describe(v selftest.Verdict) string {
	var b strings.Builder
	switch v.Class {
	case selftest.NotStaged:
		return fmt.Sprintf("%-16s not staged: %s", v.Name, v.NotStaged)
	case selftest.Noticed:
		fmt.Fprintf(&b, "%-16s noticed, %s by %s", v.Name, v.By.Level, v.By.Name)
	case selftest.Unclear:
		fmt.Fprintf(&b, "%-16s unclear, %s by %s, and so was its twin", v.Name, v.By.Level, v.By.Name)
	case selftest.Harmless:
		fmt.Fprintf(&b, "%-16s not noticed, harmless", v.Name)
	default:
		fmt.Fprintf(&b, "%-16s PASSED unnoticed", v.Name)
	}
	if v.Moved != nil {
		fmt.Fprintf(&b, " (P50 ×%s, P99 ×%s, throughput ×%s)", ratio(v.Moved.P50), ratio(v.Moved.P99), ratio(v.Moved.Throughput))
	}
	fmt.Fprintf(&b, "\n      staged: %s\n", v.Lie)
	if v.By != nil {
		fmt.Fprintf(&b, "      judge:  %s\n", v.By.Detail)
	} else {
		fmt.Fprintf(&b, "      judge:  %s\n", otherChecks(v.Told))
	}
	if v.Refused != nil {
		fmt.Fprintf(&b, "      its honest twin (%s) was REFUSED: %s, %s\n", v.Twin, v.Refused.Name, v.Refused.Detail)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// otherChecks says what the checks that do not name the situation found.
func otherChecks(o *selftest.Outcome) string {
	var said []string
	for _, c := range o.Checks {
		if c.Level != record.Unknown {
			said = append(said, fmt.Sprintf("%s by %s, which does not name it", c.Level, c.Name))
		}
	}
	if len(said) == 0 {
		return "said nothing"
	}
	return strings.Join(said, "; ")
}

// ratio has two digits, or as many as it takes.
func ratio(r float64) string {
	if r >= 10 {
		return fmt.Sprintf("%.0f", math.Round(r))
	}
	return fmt.Sprintf("%.2g", r)
}

func (a *app) disturbCommand() *cobra.Command {
	return a.partCommand("disturb", "Be a disturber that selftest starts", selftest.Act)
}
