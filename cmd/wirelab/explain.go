package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

func (a *app) explainCommand() *cobra.Command {
	var cells, rules string
	cmd := a.finds(oneObject, &cobra.Command{
		Use:   "explain RUN",
		Short: "Say where the time goes, or why one cell takes longer than another",
		Long: `Explain reads what the probes of a run saw, and says where the difference
between two of its cells lies: by stage of a call, by category of CPU time, by
system call and by counter, the largest first. With one cell it says where that
one's time goes. A run has probes if it was made with --probe, or if its
scenario asks for them.

A cell is named by as much of its name as it takes: tcp, grpc/echo/64B, c=50.
Without --cells the first and the slowest of the smallest message are compared.`,
		Example: `  wirelab compare --stack tcp,grpc --size 64 -c 1 --probe life,syscalls,cpu -o results
  wirelab explain results
  wirelab explain results --cells tcp,grpc
  wirelab explain results --cells grpc
  wirelab explain results --cells grpc/echo/64B,grpc/echo/4KiB --categories mine.yaml
  wirelab explain --categories default > mine.yaml     # the table to start from`,
		Args: cobra.MaximumNArgs(1),
	}, func(_ *cobra.Command, args []string) (found finding, err error) {
		if rules == "default" && len(args) == 0 {
			write := func(w io.Writer) error { _, err := w.Write(insight.DefaultCategories); return err }
			return finding{words: write}, nil
		}
		if err := oneRun(nil, args); err != nil {
			return found, usage(err)
		}
		e, err := a.explain(args[0], cells, rules)
		if err != nil {
			return found, usage(err)
		}
		words := advice.Explain(e)
		found.value = struct {
			*insight.Explanation
			Words []string `json:"words"`
		}{e, words}
		found.words = func(w io.Writer) error {
			return errors.Join(format.WriteWords(w, words, format.TerminalOf(w)), table.WriteExplanation(w, e))
		}
		return found, nil
	})
	f := cmd.Flags()
	f.StringVar(&cells, "cells", "", "the `cells` to explain: one, or two with a comma between")
	f.StringVar(&rules, "categories", "", "a `file` of rules in place of wirelab's own; default prints those")
	return cmd
}

func (a *app) explain(directory, cells, rules string) (*insight.Explanation, error) {
	categories := insight.UsualCategories()
	if rules != "" {
		text, err := os.ReadFile(rules)
		if err != nil {
			return nil, fmt.Errorf("--categories: %w", err)
		}
		if categories, err = insight.ParseCategories(text); err != nil {
			return nil, fmt.Errorf("--categories: %s: %w", rules, err)
		}
	}
	seen, err := a.reader().ReadBy(categories, directory)
	if err != nil {
		return nil, err
	}
	insights := seen.Summary.Insights
	switch {
	case len(insights) == 0 && seen.Summary.Fleet != nil:
		return nil, fmt.Errorf("run %s was measured by a fleet, and probes look on only from the machine that the ends run on: measure it without --fleet, with --probe life,syscalls,cpu", directory)
	case len(insights) == 0:
		return nil, fmt.Errorf("run %s has no probes: measure it again with --probe life,syscalls,cpu", directory)
	}
	if cells == "" {
		return insight.Explain(insight.UsualPair(insights)), nil
	}
	e, err := insight.ExplainCells(cells, insights)
	if err != nil {
		return nil, fmt.Errorf("--cells: %w", err)
	}
	return e, nil
}
