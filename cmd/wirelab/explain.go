package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

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
	names := strings.Split(cells, ",")
	if len(names) > 2 {
		names = splitVariants(names, insights)
	}
	if len(names) > 2 {
		return nil, fmt.Errorf("--cells: want one cell or two, found %d", len(names))
	}
	var chosen []*insight.Insight
	for _, name := range names {
		one, err := findInsight(name, insights, chosen)
		if err != nil {
			return nil, fmt.Errorf("--cells: %w", err)
		}
		chosen = append(chosen, one)
	}
	if len(chosen) == 1 {
		return insight.Explain(chosen[0], nil), nil
	}
	return insight.Explain(chosen[1], chosen[0]), nil
}

// splitVariants puts the names together again where a variant has commas of its own.
func splitVariants(words []string, among []insight.Insight) []string {
	for cut := 1; cut < len(words); cut++ {
		names := []string{strings.Join(words[:cut], ","), strings.Join(words[cut:], ",")}
		if !slices.ContainsFunc(names, func(name string) bool { return len(matching(name, among)) == 0 }) {
			return names
		}
	}
	if name := strings.Join(words, ","); len(matching(name, among)) > 0 {
		return []string{name}
	}
	return words
}

// matching returns the insights that a name may mean: a variant, or a part of the whole name.
func matching(name string, among []insight.Insight) []*insight.Insight {
	var variants, parts []*insight.Insight
	for i := range among {
		one := &among[i]
		place := one.Key()
		switch {
		case place == name:
			return []*insight.Insight{one}
		case one.Variant == name:
			variants = append(variants, one)
		case strings.Contains("/"+place+"/", "/"+name+"/"):
			parts = append(parts, one)
		}
	}
	if len(variants) > 0 {
		return variants
	}
	return parts
}

// findInsight finds the one that a name means. Of several it takes the one at the same point
// as the cell that was chosen before, or else the first if they are of one variant.
func findInsight(name string, among []insight.Insight, before []*insight.Insight) (*insight.Insight, error) {
	found := matching(name, among)
	if len(found) == 0 {
		places := each(among, func(i insight.Insight) string { return (&i).Key() })
		return nil, fmt.Errorf("no cell that was looked into is %q; there are\n  %s", name, strings.Join(places, "\n  "))
	}
	for _, one := range found {
		if len(before) > 0 && one.IsAt(before[0]) && one != before[0] {
			return one, nil
		}
	}
	return found[0], nil
}
