package publish

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// An Explanation holds the parts of a cell's time, or of a difference, and the sentences about them.
type Explanation struct {
	*insight.Explanation
	Words []string `json:"words"` // the explanation in sentences, the most important first
	// Trust says how many of the measured trials are valid, and what their checks found.
	Trust []string `json:"trust"`
}

// An Advice recommends variants.
type Advice struct {
	Leads  []rank.Lead `json:"leads"`  // which variant is best at which points, with the grade and the evidence
	Advice []string    `json:"advice"` // the same in sentences
}

// Explain explains the named cells of a run, or those of [insight.DefaultPair] if cells is empty. For two
// runs, the earlier first, it explains why the later run's cell takes longer. rules names a file of
// categories of CPU time; empty means the built-in categories.
func (r Reader) Explain(directories []string, cells, rules string) (*Explanation, error) {
	categories, err := readCategories(rules)
	if err != nil {
		return nil, err
	}
	names, runs := ShortNames(directories), make([]*report.Run, len(directories))
	for i, directory := range directories {
		if runs[i], err = r.ReadWithCategories(categories, directory); err != nil {
			return nil, err
		}
		insights := runs[i].Summary.Insights
		if len(insights) == 0 {
			return nil, fmt.Errorf("run %s has no probes: measure it again with --probe life,syscalls,cpu (on agents with --allow-probes: --probe syscalls,cpu)", directory)
		}
		for j := range insights {
			if len(runs) > 1 {
				insights[j].Run = names[i]
			}
		}
	}
	first, last := runs[0].Summary, runs[len(runs)-1].Summary
	var e *insight.Explanation
	switch {
	case len(runs) > 1:
		e, err = insight.ExplainRuns(cells, first.Insights, last.Insights)
	case cells != "":
		e, err = insight.ExplainCells(cells, first.Insights)
	default:
		e = insight.ExplainDefault(first.Insights)
	}
	if err != nil {
		return nil, fmt.Errorf("--cells: %w", err)
	}
	done := &Explanation{Explanation: e, Words: advice.Explain(e)}
	of, against := e.Names()
	if e.Against != nil {
		done.Trust = trustOf(first, e.Against, against)
	}
	done.Trust = append(done.Trust, trustOf(last, e.Of, of)...)
	return done, nil
}

func readCategories(rules string) (*insight.Categories, error) {
	if rules == "" {
		return nil, nil
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		return nil, fmt.Errorf("--categories: %w", err)
	}
	categories, err := insight.ParseCategories(text)
	if err != nil {
		return nil, fmt.Errorf("--categories: %s: %w", rules, err)
	}
	return categories, nil
}

// maxShownFindings limits the findings of checks that are printed for a cell.
const maxShownFindings = 3

// trustOf returns how many of a cell's measured trials are valid, and what their checks found.
func trustOf(s *analysis.Summary, i *insight.Insight, name string) []string {
	place := slices.IndexFunc(s.Cells, func(c matrix.Cell) bool {
		return c.Part == i.Part && c.Variant == i.Variant && c.Place == i.Place
	})
	if place < 0 {
		return []string{fmt.Sprintf("Trust: %s has no measured trials, only those with a probe.", name)}
	}
	c := &s.Cells[place]
	lines := []string{fmt.Sprintf("Trust: %s: %d of %s valid.", name, c.Valid, words.Count(c.Trials, "measured trial"))}
	findings := table.Warnings(c)
	for _, found := range findings[:min(len(findings), maxShownFindings)] {
		lines = append(lines, "  "+strings.TrimSuffix(found, ".")+".")
	}
	return lines
}

// Write prints the sentences, and then the figures behind them.
func (e *Explanation) Write(w io.Writer) error {
	terminal := format.TerminalOf(w)
	var out strings.Builder
	for _, line := range e.Trust {
		format.Wrap(&out, line, format.LayoutOf(line, terminal))
	}
	err := format.WriteSentences(w, e.Words, terminal)
	_, trustErr := io.WriteString(w, terminal.Encode(out.String()))
	return errors.Join(err, trustErr, table.WriteExplanation(w, e.Explanation))
}
