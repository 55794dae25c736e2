package insight

import (
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Measured compares the means of two cells over their measured trials, or holds the mean of one.
type Measured struct {
	A *float64 `json:"a_us" jsonschema:"nullable"` // null if there is no cell A, or if it was not measured
	B *float64 `json:"b_us" jsonschema:"nullable"`
	// Ratio is B's mean divided by A's mean; null if one is not known.
	Ratio *matrix.Figure `json:"ratio"`
	// Verdict says what the trials prove of B; empty if there are too few for a verdict.
	Verdict compare.Verdict `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=equivalent,enum=undecided,enum="`
	// Refused says that no trial of one cell is valid, so that its mean may be wrong.
	Refused bool    `json:"refused"`
	Margin  float64 `json:"margin"` // smallest of 0.01, 0.02, 0.05 and 0.1 by which the cells differ at most; 0 if they may differ by more
}

// Difference returns B's mean minus A's mean, in microseconds.
func (m *Measured) Difference() (us float64, known bool) {
	if m.A == nil || m.B == nil {
		return 0, false
	}
	return *m.B - *m.A, true
}

// IsProven reports whether the trials prove that B is faster or slower.
func (m *Measured) IsProven() bool {
	return m.Verdict == compare.Faster || m.Verdict == compare.Slower
}

// measure compares two cells by their measured trials. It uses the run's own comparison if it has one, so
// that table, answer and explanation say the same.
func measure(of, against *Insight) Measured {
	var m Measured
	m.B, m.Refused = of.meanOrRefused()
	if against == nil {
		return m
	}
	var refused bool
	m.A, refused = against.meanOrRefused()
	m.Refused = m.Refused || refused
	if m.A == nil || m.B == nil || *m.A <= 0 {
		return m
	}
	if m.Ratio = (&matrix.Figure{Value: *m.B / *m.A}); m.Refused {
		return m
	}
	for _, c := range of.comparisons {
		a, b := c.Points()
		switch {
		case c.Metric != matrix.Mean:
		case a == of.point && b == against.point:
			m.Ratio, m.Verdict, m.Margin = &c.Ratio, c.Verdict, c.Margin
			return m
		case b == of.point && a == against.point:
			inverse := c.Ratio.Inverse()
			m.Ratio, m.Verdict, m.Margin = &inverse, c.Verdict.Opposite(), c.Margin
			return m
		}
	}
	if of.point == nil || against.point == nil || of.point == against.point {
		return m
	}
	// The cells have different conditions, or are from two runs.
	now, before := matrix.FitTogether([]*matrix.Point{of.point}, matrix.Mean), matrix.FitTogether([]*matrix.Point{against.point}, matrix.Mean)
	if ratio, known := matrix.RatioOfRuns(now, of.point, before, against.point); known {
		var family compare.Family
		family.Add(ratio, func(c stats.Comparison) {
			m.Ratio = new(matrix.FigureOf(c.Ratio))
			m.Verdict, m.Margin = compare.TranslateVerdict(matrix.Mean, c.Verdict), c.Margin
		})
		family.Judge()
	}
	return m
}
