package report

import (
	"strconv"

	"wirelab.dev/internal/analysis"
)

// csvLoads is what loads other than a closed loop ask: how long a burst takes
// to drain, and between which rates the highest one lies that keeps a goal.
// The latency by position in a burst is the percentiles of its response time.
func csvLoads() []csvColumn {
	searched := func(pick func(*analysis.Search) *analysis.Figure) func(*analysis.Cell) *analysis.Figure {
		return func(c *analysis.Cell) *analysis.Figure {
			if c.Search == nil {
				return nil
			}
			return pick(c.Search)
		}
	}
	columns := csvFigure("drain_us", func(c *analysis.Cell) *analysis.Figure { return c.Drain })
	columns = append(columns, csvFigure("kept_rps", searched(func(s *analysis.Search) *analysis.Figure { return &s.Kept }))...)
	columns = append(columns, csvFigure("missed_rps", searched(func(s *analysis.Search) *analysis.Figure { return &s.Missed }))...)
	knee := func(pick func(analysis.RateKnee) float64) func(*analysis.Cell) string {
		return func(c *analysis.Cell) string {
			if c.Search == nil || !c.Search.Knee.Found {
				return ""
			}
			return strconv.FormatFloat(pick(c.Search.Knee), 'g', -1, 64)
		}
	}
	return append(columns,
		csvColumn{"knee_rps", knee(func(k analysis.RateKnee) float64 { return k.Rate })},
		csvColumn{"knee_rps_low", knee(func(k analysis.RateKnee) float64 { return k.Low })},
		csvColumn{"knee_rps_high", knee(func(k analysis.RateKnee) float64 { return k.High })})
}
