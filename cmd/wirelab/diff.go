package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
)

// diffForms lists the formats of diff.
var diffForms = map[string]func(io.Writer, *gate.DiffReport) error{
	"json":     report.WriteDiffJSON,
	"markdown": gate.WriteDiffMarkdown,
	"junit":    gate.WriteDiffJUnit,
}

func (a *app) diffCommand() *cobra.Command {
	var (
		flags        gateFlags
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
with its whole interval; what may be so by chance is named, and passes. A
condition may be on a figure of the later run, too, as in 'p99>20ms', which
alone decides: docs/load.md lists all forms.`,
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
			conditions, err := flags.conditions("")
			if err != nil {
				return err
			}
			after, err := a.diff(args[0], args[1], only, &gates{conditions: conditions})
			if err != nil {
				return usage(err)
			}
			err = a.writeTo(output, func(w io.Writer) error {
				if write := diffForms[form]; write != nil {
					return write(w, after.Since)
				}
				return gate.WriteDiff(w, after.Since, format.TerminalOf(w))
			})
			if err != nil {
				return err
			}
			return exit(after, nil)
		},
	}
	f := cmd.Flags()
	flags.registerConditions(f)
	f.StringVar(&form, "format", "text", "the `form`: "+strings.Join(forms, ", "))
	f.StringVarP(&output, "output", "o", "", "`file` to write (default: standard output)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, as --format json does")
	f.StringVar(&only[0], "before-cell", "", "only the earlier run's cells whose name contains this `text`")
	f.StringVar(&only[1], "after-cell", "", "only the later run's cells whose name contains this `text`")
	complete(cmd, "format", forms)
	return cmd
}

// diff compares two runs, in cells whose names contain the given texts, and judges the gates
// in the later one, which it returns.
func (a *app) diff(before, after string, only [2]string, g *gates) (*report.Run, error) {
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
	runs[1].Gates = g.find(runs[1].Summary, d)
	runs[1].Since = gate.NewDiffReport(d, runs[1].Gates)
	return runs[1], nil
}
