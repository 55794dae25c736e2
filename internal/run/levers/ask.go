package levers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// CheckComparison refuses a comparison whose levers could not be tried, before anything is measured.
func CheckComparison(s *scenario.Scenario, fleet record.FleetWanted, hasTargets bool) error {
	switch {
	case fleet != record.FleetWanted{}:
		return fmt.Errorf("--try: %w", errFleet)
	case hasTargets:
		return fmt.Errorf("--try: %w", errTarget)
	case slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Load.Model == scenario.Search }):
		return fmt.Errorf("--try: %w", errSearch)
	}
	return nil
}

// Ask returns the question about a cell of the run in a directory. cells names the cell, or two cells;
// the question is about the slower one. Empty means the cells that explain chooses. A run without
// probes has no suspects.
func Ask(directory string, s *analysis.Summary, cells string, words scenario.Vocabulary) (*Question, error) {
	manifest, err := record.ReadManifest(directory)
	if err != nil {
		return nil, err
	}
	if manifest.Fleet != nil {
		return nil, errFleet
	}
	asked, err := scenario.Parse("manifest.json", manifest.Scenario, words)
	if err != nil {
		return nil, fmt.Errorf("the run has no scenario to measure again: %w", err)
	}
	among := s.Insights
	if len(among) == 0 {
		among = lists.Map(s.Cells, func(c matrix.Cell) insight.Insight {
			return insight.Insight{Part: c.Part, Variant: c.Variant, Place: c.Place, Mean: &c.ResponseTimes().Mean}
		})
	}
	if len(among) == 0 {
		return nil, errors.New("the run has no cell yet: continue it with wirelab run --resume")
	}
	e := insight.ExplainDefault(among)
	if cells != "" {
		if e, err = insight.ExplainCells(cells, among); err != nil {
			return nil, fmt.Errorf("--cells: %w", err)
		}
	}
	if a, b := e.Against, e.Of; a != nil && a.Mean != nil && b.Mean != nil && b.Mean.Value < a.Mean.Value {
		e = insight.Explain(a, b)
	}
	q := &Question{Words: words, Run: asked, Of: cellOf(s, e.Of), Suspects: suspects(e.Causes)}
	if len(s.Insights) > 0 {
		q.Explained = e
	}
	if e.Of.Tail != nil {
		q.SlowSuspects = suspects(e.Of.Tail.Causes)
	}
	if e.Of.Mean != nil {
		q.Mean = time.Duration(e.Of.Mean.Value * float64(time.Microsecond))
	}
	if e.Against != nil {
		fast := cellOf(s, e.Against)
		q.Against = &fast
	}
	return q, nil
}

// suspects returns the kinds of the causes that take time, the most important first.
func suspects(causes []insight.Cause) (kinds []insight.CauseKind) {
	for _, c := range causes {
		if c.Time > 0 {
			kinds = lists.AppendNew(kinds, c.Kind)
		}
	}
	return kinds
}

// cellOf returns the measured cell of an insight, with its target, or the cell as the insight knows it.
func cellOf(s *analysis.Summary, of *insight.Insight) record.Cell {
	i := slices.IndexFunc(s.Cells, func(c matrix.Cell) bool { return c.Cell.Key() == of.Key() })
	if i < 0 {
		return of.Cell()
	}
	return s.Cells[i].Cell
}
