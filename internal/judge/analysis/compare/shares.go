package compare

import (
	"math"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// Shares divides the difference between a part's first and last variant among the changes from
// each variant to the next. Shares are computed from logarithms, because ratios multiply. If a
// variant has no valid trial, the variant before it counts as the last.
type Shares struct {
	Part string `json:"part"`
	record.Place
	Metric  string        `json:"metric" jsonschema:"enum=cpu,enum=throughput,enum=mean"` // the metric in which the variants differ
	From    string        `json:"from"`                                                   // the first variant
	To      string        `json:"to"`                                                     // the last variant
	Pairs   int           `json:"pairs"`                                                  // least number of trials of a variant
	Ratio   matrix.Figure `json:"ratio"`                                                  // the last variant's figure divided by the first's
	Decided bool          `json:"decided"`                                                // the ratio is proven to differ from 1; if not, there are no shares
	Steps   []ShareStep   `json:"steps"`
}

// A ShareStep is the share of one change in a difference.
type ShareStep struct {
	Change  string         `json:"change"` // the scenario's name for the change
	From    string         `json:"from"`   // the variant before the change
	To      string         `json:"to"`     // the variant after the change
	Ratio   matrix.Figure  `json:"ratio"`
	Decided bool           `json:"decided"` // the ratio is proven to differ from 1
	Share   *matrix.Figure `json:"share"`   // share of the total difference; negative if the change offsets other changes; null if the difference is not proven
}

// FindShares returns shares for each part with changes, at each point with enough variants.
func FindShares(s *study.Study, points []*matrix.Point) []Shares {
	if len(s.Changes) == 0 {
		return nil
	}
	var all []Shares
	fits := map[string]*matrix.Fit{}
	for _, name := range shareMetrics {
		fits[name] = matrix.NewFit(points, name)
	}
	for _, group := range matrix.ComparableGroups(points) {
		for _, c := range s.Changes {
			for _, name := range shareMetrics {
				if c.Part != group[0].Cell.Part || !matrix.IsMeaningful(group[0].Cell.Load.Model, name) {
					continue
				}
				if variants := pickVariants(group, c.Variants, fits[name]); len(variants) >= leastVariants {
					one := sharesOf(variants, c.Texts, fits[name])
					one.Metric = name
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// shareMetrics lists the metrics whose differences are divided.
var shareMetrics = []string{matrix.CPU, matrix.Throughput, matrix.Mean}

// leastVariants is the least number of variants for dividing their difference.
const leastVariants = 3

// pickVariants returns the points of the variants in order, up to the first without the figure.
func pickVariants(points []*matrix.Point, variants []string, fit *matrix.Fit) []*matrix.Point {
	var found []*matrix.Point
	for _, variant := range variants {
		p := matrix.FindVariant(points, variant)
		if !fit.Has(p) {
			break
		}
		found = append(found, p)
	}
	return found
}

func sharesOf(variants []*matrix.Point, changes []string, fit *matrix.Fit) Shares {
	first, last := variants[0], variants[len(variants)-1]
	s := Shares{Part: first.Cell.Part, Place: first.Cell.Place, From: first.Cell.Variant, To: last.Cell.Variant, Pairs: math.MaxInt}
	for _, p := range variants {
		s.Pairs = min(s.Pairs, fit.Trials(p))
	}
	total, _ := fit.Ratio(last, first)
	s.Ratio = total.Figure()
	s.Decided = isProven(s.Ratio)
	for i := 1; i < len(variants); i++ {
		step := ShareStep{Change: changes[i-1], From: variants[i-1].Cell.Variant, To: variants[i].Cell.Variant}
		own, _ := fit.Ratio(variants[i], variants[i-1])
		step.Ratio = own.Figure()
		step.Decided = isProven(step.Ratio)
		if s.Decided {
			step.Share = new(shareOf(math.Log(own.Value)/math.Log(total.Value), func(share float64) (stats.Contrast, bool) {
				return fit.Logs([]*matrix.Point{variants[i], variants[i-1], last, first}, []float64{1, -1, -share, share})
			}, total.Level))
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

// isProven reports whether a ratio's interval excludes 1.
func isProven(ratio matrix.Figure) bool {
	return ratio.Interval != nil && (ratio.Interval.Low > 1 || ratio.Interval.High < 1)
}

// maxShareDistance limits how far from the estimate shareOf looks for an interval's ends.
const maxShareDistance = 100

// shareOf returns the share of one change in the total difference. rest returns the part of the
// change that a share of the total leaves over. The interval contains every share for which the rest
// may be zero (Fieller 1954). It has no gaps if the total is proven not to be zero.
func shareOf(estimate float64, rest func(share float64) (stats.Contrast, bool), at matrix.Level) matrix.Figure {
	return intervalOfShare(estimate, func(share float64) bool {
		e, known := rest(share)
		return !known || e.Interval(at.Confidence()).Contains(1)
	})
}

// intervalOfShare returns the share with the interval that has every possible share.
func intervalOfShare(estimate float64, isPossible func(share float64) bool) matrix.Figure {
	end := func(beyond float64) float64 {
		inside, outside := estimate, beyond
		for range 60 { // 60 halvings find the end to the last digit
			if middle := (inside + outside) / 2; isPossible(middle) {
				inside = middle
			} else {
				outside = middle
			}
		}
		return inside
	}
	low, high := estimate-maxShareDistance, estimate+maxShareDistance
	if isPossible(low) || isPossible(high) {
		return matrix.Figure{Value: estimate}
	}
	return matrix.Figure{Value: estimate, Interval: &matrix.Interval{Low: end(low), High: end(high), Confidence: matrix.Confidence}}
}
