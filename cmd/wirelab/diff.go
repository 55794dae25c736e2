package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report"
)

// gateFlags are the conditions on a difference.
type gateFlags struct{ failIf []string }

func (g *gateFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&g.failIf, "fail-if", nil, "end with exit code 3 if a `condition` is beyond doubt in any cell, as in 'p99 > +10%'; repeatable")
}

func (g *gateFlags) gates() ([]analysis.Gate, error) {
	var gates []analysis.Gate
	for _, text := range g.failIf {
		gate, err := analysis.ParseGate(text)
		if err != nil {
			return nil, usage(fmt.Errorf("--fail-if: %w", err))
		}
		gates = append(gates, gate)
	}
	return gates, nil
}

// baselineFlags name an earlier run, and what must not have changed since.
type baselineFlags struct {
	run string
	gateFlags
}

func (b *baselineFlags) register(f *pflag.FlagSet) {
	f.StringVar(&b.run, "baseline", "", "an earlier `run`: what became faster or slower since is printed, too")
	b.gateFlags.register(f)
}

// baseline is an earlier run that can be read.
type baseline struct {
	run   string
	seen  *analysis.Summary
	gates []analysis.Gate
}

// check finds before anything is measured that there would be nothing to compare.
func (b *baseline) check(planned []record.Cell) error {
	if b == nil {
		return nil
	}
	for _, c := range planned {
		if b.seen.Has(c) {
			return nil
		}
	}
	return usage(fmt.Errorf("--baseline: %s has none of the cells to be measured, with the same load: it has %s: give the flags that it had", b.run, firstCell(b.seen)))
}

func firstCell(s *analysis.Summary) string {
	if len(s.Cells) == 0 {
		return "none"
	}
	return s.Cells[0].Key
}

// read is nil without a baseline.
func (b *baselineFlags) read(a *app) (*baseline, error) {
	gates, err := b.gates()
	switch {
	case err != nil:
		return nil, err
	case b.run == "" && len(gates) > 0:
		return nil, usage(errors.New("--fail-if: name the earlier run with --baseline"))
	case b.run == "":
		return nil, nil
	}
	seen, err := a.readRun(b.run)
	if err != nil {
		return nil, usage(fmt.Errorf("--baseline: %w", err))
	}
	return &baseline{b.run, seen.Summary, gates}, nil
}

// diffSince prints what changed since the baseline, and fails if a gate is breached.
func (a *app) diffSince(b *baseline, run string, w io.Writer) error {
	found, err := a.diff(b.run, run, [2]string{}, b.gates)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nSince %s:\n", b.run)
	if err := report.WriteDiff(w, found, terminalOf(w)); err != nil {
		return err
	}
	return breach(found)
}

// diffForms are what diff can write.
var diffForms = map[string]func(io.Writer, *report.DiffReport) error{
	"json":     report.WriteDiffJSON,
	"markdown": report.WriteDiffMarkdown,
	"junit":    report.WriteDiffJUnit,
}

func (a *app) diffCommand() *cobra.Command {
	var (
		gates        gateFlags
		form, output string
		only         [2]string // texts in the names of cells, before and after
		asJSON       bool
	)
	forms := []string{"text", "json", "markdown", "junit"}
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Say what became faster or slower from one run to another",
		Long: `Diff compares two runs, cell by cell, where both measured the same: the
mean, P99, throughput, and CPU time a request of both ends. A difference is
called faster, slower, more or less only where it is beyond doubt; that takes
three valid trials in each run. The runs were not made by turns, so what else
changed in between counts too: measure both on one quiet machine, soon after
one another.

A run of another program's figures (wirelab import) is compared by service
times, cell by cell where clients and load agree as far as the files say; where
that leaves a choice, name the cells with --before-cell and --after-cell.

With --fail-if it is a gate: exit code 3 if a change lies beyond the limit
with its whole interval. What may be so by chance is named, and passes.`,
		Example: `  wirelab diff results-before results-after
  wirelab diff before after --fail-if 'p99 > +10%' --fail-if 'throughput < -5%'
  wirelab diff before after --format markdown >> "$GITHUB_STEP_SUMMARY"
  wirelab diff before after --fail-if 'mean > +5%' --format junit -o diff.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name the directories of two runs, the earlier first; found %d arguments", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if asJSON {
				form = "json"
			}
			if !slices.Contains(forms, form) {
				return usage(fmt.Errorf("--format: %q is unknown: want one of %s", form, strings.Join(forms, ", ")))
			}
			wanted, err := gates.gates()
			if err != nil {
				return err
			}
			found, err := a.diff(args[0], args[1], only, wanted)
			if err != nil {
				return usage(err)
			}
			err = a.writeTo(output, func(w io.Writer) error {
				if write := diffForms[form]; write != nil {
					return write(w, found)
				}
				return report.WriteDiff(w, found, terminalOf(w))
			})
			if err != nil {
				return err
			}
			return breach(found)
		},
	}
	f := cmd.Flags()
	gates.register(f)
	f.StringVar(&form, "format", "text", "the `form`: "+strings.Join(forms, ", "))
	f.StringVarP(&output, "output", "o", "", "`file` to write (default: standard output)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, as --format json does")
	f.StringVar(&only[0], "before-cell", "", "only the earlier run's cells whose name contains this `text`")
	f.StringVar(&only[1], "after-cell", "", "only the later run's cells whose name contains this `text`")
	complete(cmd, "format", forms)
	return cmd
}

// diff compares two runs, in cells whose names contain the given texts.
func (a *app) diff(before, after string, only [2]string, gates []analysis.Gate) (*report.DiffReport, error) {
	var runs [2]*report.Run
	for i, directory := range []string{before, after} {
		var err error
		if runs[i], err = a.readRun(directory); err != nil {
			return nil, err
		}
		if err := runs[i].Summary.Only(only[i]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", [2]string{"--before-cell", "--after-cell"}[i], directory, err)
		}
	}
	d, err := analysis.Differ(runs[0].Summary, runs[1].Summary)
	if err != nil {
		return nil, err
	}
	d.Before, d.After = before, after
	return report.NewDiffReport(d, gates), nil
}

// breach is the exit code of a gate that was.
func breach(found *report.DiffReport) error {
	if !found.IsBreached() {
		return nil
	}
	var texts []string
	for _, g := range found.Gates {
		if len(g.Breached) > 0 {
			texts = append(texts, fmt.Sprintf("%s in %s", g.Gate, shortList(g.Breached)))
		}
	}
	return exitError{exitBreached, fmt.Errorf("breached: %s", strings.Join(texts, "; "))}
}
