package publish

import (
	"errors"
	"fmt"
	"io"
	"os"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// An Explanation holds the parts of a cell's time, or of a difference, and the sentences about them.
type Explanation struct {
	*insight.Explanation
	Words []string `json:"words"`
}

// Explain explains the named cells of a run, or those of [insight.DefaultPair] if cells is empty. rules names
// a file of categories of CPU time; empty means the built-in categories.
func (r Reader) Explain(directory, cells, rules string) (*Explanation, error) {
	var categories *insight.Categories
	if rules != "" {
		text, err := os.ReadFile(rules)
		if err != nil {
			return nil, fmt.Errorf("--categories: %w", err)
		}
		if categories, err = insight.ParseCategories(text); err != nil {
			return nil, fmt.Errorf("--categories: %s: %w", rules, err)
		}
	}
	seen, err := r.ReadWithCategories(categories, directory)
	if err != nil {
		return nil, err
	}
	insights := seen.Summary.Insights
	if len(insights) == 0 {
		return nil, fmt.Errorf("run %s has no probes: measure it again with --probe life,syscalls,cpu (on agents with --allow-probes: --probe syscalls,cpu)", directory)
	}
	e := insight.ExplainDefault(insights)
	if cells != "" {
		if e, err = insight.ExplainCells(cells, insights); err != nil {
			return nil, fmt.Errorf("--cells: %w", err)
		}
	}
	return &Explanation{e, advice.Explain(e)}, nil
}

// Write prints the sentences, and then the figures behind them.
func (e *Explanation) Write(w io.Writer) error {
	return errors.Join(format.WriteSentences(w, e.Words, format.TerminalOf(w)), table.WriteExplanation(w, e.Explanation))
}
