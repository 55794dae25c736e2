package compare

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

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
	Pairs   int           `json:"pairs"`                                                  // number of repeats in which all variants have a valid trial
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
	var all []Shares
	for _, group := range matrix.ComparableGroups(points) {
		for _, c := range s.Changes {
			variants := pickVariants(group, c.Variants)
			if c.Part != group[0].Cell.Part || len(variants) < leastVariants {
				continue
			}
			for _, name := range []string{matrix.CPU, matrix.Throughput, matrix.Mean} {
				if !matrix.IsMeaningful(group[0].Cell.Load.Model, name) {
					continue
				}
				if s, ok := sharesOf(variants, c.Texts, matrix.Metrics[name]); ok {
					s.Metric = name
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// leastVariants is the least number of variants for dividing their difference.
const leastVariants = 3

// pickVariants returns the points of the variants in order, up to the first missing one.
func pickVariants(points []*matrix.Point, variants []string) []*matrix.Point {
	var found []*matrix.Point
	for _, variant := range variants {
		p := matrix.FindVariant(points, variant)
		if p == nil {
			break
		}
		found = append(found, p)
	}
	return found
}

// sharesOf returns the shares up to the last variant that has a repeat in common with all variants
// before it. It returns false if too few variants remain.
func sharesOf(variants []*matrix.Point, changes []string, of matrix.Metric) (Shares, bool) {
	var logs [][]float64
	for len(variants) >= leastVariants {
		if logs = logsOf(variants, of); len(logs[0]) > 0 {
			break
		}
		variants = variants[:len(variants)-1]
	}
	if len(variants) < leastVariants {
		return Shares{}, false
	}
	first, last := variants[0], variants[len(variants)-1]
	difference := func(a, b []float64) []float64 { return floats.SubTo(make([]float64, len(a)), a, b) }
	total := difference(logs[len(logs)-1], logs[0])
	s := Shares{
		Part: first.Cell.Part, Place: first.Cell.Place, From: first.Cell.Variant, To: last.Cell.Variant, Pairs: len(total),
	}
	s.Ratio, s.Decided = ratioFromLogs(total, first.Level)
	for i := 1; i < len(variants); i++ {
		step := ShareStep{Change: changes[i-1], From: variants[i-1].Cell.Variant, To: variants[i].Cell.Variant}
		own := difference(logs[i], logs[i-1])
		step.Ratio, step.Decided = ratioFromLogs(own, first.Level)
		if s.Decided {
			step.Share = new(shareOf(own, total, first.Level))
		}
		s.Steps = append(s.Steps, step)
	}
	return s, true
}

// logsOf returns a metric's logarithm for each variant, in the repeats that all variants have.
func logsOf(variants []*matrix.Point, of matrix.Metric) [][]float64 {
	logs := make([][]float64, len(variants))
	for _, t := range variants[0].MeasuredTrials() {
		var row []float64
		for _, p := range variants {
			measured := p.MeasuredTrials()
			i := slices.IndexFunc(measured, func(other matrix.Trial) bool { return other.Repeat == t.Repeat })
			if i < 0 || !(of(measured[i]) > 0) {
				break
			}
			row = append(row, math.Log(of(measured[i])))
		}
		if len(row) < len(variants) {
			continue
		}
		for i, log := range row {
			logs[i] = append(logs[i], log)
		}
	}
	return logs
}

// ratioFromLogs returns the mean ratio, and reports whether it is proven to differ from 1.
func ratioFromLogs(logs []float64, at matrix.Level) (matrix.Figure, bool) {
	interval, err := stats.MeanInterval(logs, at.Confidence())
	if err != nil {
		return matrix.Figure{Value: math.Exp(mean(logs))}, false // too few repeats
	}
	return matrix.FigureOfLogs(interval), !interval.Contains(0)
}

// maxShareDistance limits how far from the estimate shareOf looks for an interval's ends.
const maxShareDistance = 100

// shareOf returns the share of one change's logarithms in the total. The interval contains every
// share r for which own − r·total may be zero (Fieller 1954). It has no gaps if the total is
// proven not to be zero.
func shareOf(own, total []float64, at matrix.Level) matrix.Figure {
	estimate := mean(own) / mean(total)
	isPossible := func(r float64) bool {
		rest := floats.AddScaledTo(make([]float64, len(own)), own, -r, total)
		interval, err := stats.MeanInterval(rest, at.Confidence())
		return err == nil && interval.Contains(0)
	}
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

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
