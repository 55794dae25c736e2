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

// Shares says how the difference between a part's first variant and its last
// comes about, change by change. Ratios multiply, so the shares are of the
// logarithm of the ratio. A variant without a valid trial ends the way: then the last is
// the one before it.
type Shares struct {
	Part string `json:"part"`
	record.Place
	Metric  string        `json:"metric" jsonschema:"enum=cpu,enum=throughput,enum=mean"` // of a contrast or a comparison
	From    string        `json:"from"`                                                   // a variant
	To      string        `json:"to"`                                                     // a variant
	Pairs   int           `json:"pairs"`                                                  // repeats in which all variants have a valid trial
	Ratio   matrix.Figure `json:"ratio"`                                                  // of the last variant over the first
	Decided bool          `json:"decided"`                                                // the ratio is beyond doubt not 1; else there is nothing to share out
	Steps   []ShareStep   `json:"steps"`
}

// A ShareStep is the part of one change.
type ShareStep struct {
	Change  string         `json:"change"` // as the scenario says
	From    string         `json:"from"`   // a variant
	To      string         `json:"to"`     // a variant
	Ratio   matrix.Figure  `json:"ratio"`
	Decided bool           `json:"decided"` // the ratio is beyond doubt not 1
	Share   *matrix.Figure `json:"share"`   // below zero where the change makes up for others; null if there is nothing to share out
}

// FindShares looks for all variants of a part with changes, side by side at one place.
func FindShares(s *study.Study, points []*matrix.Point) []Shares {
	var all []Shares
	for _, group := range matrix.Rivals(points) {
		for _, c := range s.Changes {
			variants := pick(group, c.Variants)
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

// leastVariants is the fewest variants to share a difference between.
const leastVariants = 3

// pick returns the points of the variants, in their order, up to the first that is missing.
func pick(points []*matrix.Point, variants []string) []*matrix.Point {
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

// sharesOf ends at the last variant that some repeat has beside all before it, or is false.
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
	s.Ratio, s.Decided = ratioOf(total, first.Level)
	for i := 1; i < len(variants); i++ {
		step := ShareStep{Change: changes[i-1], From: variants[i-1].Cell.Variant, To: variants[i].Cell.Variant}
		own := difference(logs[i], logs[i-1])
		step.Ratio, step.Decided = ratioOf(own, first.Level)
		if s.Decided {
			step.Share = new(shareOf(own, total, first.Level))
		}
		s.Steps = append(s.Steps, step)
	}
	return s, true
}

// logsOf returns the logarithms by variant and repeat, for repeats in which all variants have one.
func logsOf(variants []*matrix.Point, of matrix.Metric) [][]float64 {
	logs := make([][]float64, len(variants))
	for _, t := range variants[0].Valid() {
		var row []float64
		for _, p := range variants {
			valid := p.Valid()
			i := slices.IndexFunc(valid, func(other matrix.Trial) bool { return other.Repeat == t.Repeat })
			if i < 0 || !(of(valid[i]) > 0) {
				break
			}
			row = append(row, math.Log(of(valid[i])))
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

// ratioOf turns logarithms of ratios into a ratio, and reports whether it is certainly not 1.
func ratioOf(logs []float64, at matrix.Level) (matrix.Figure, bool) {
	interval, err := stats.MeanInterval(logs, at.Confidence())
	if err != nil {
		return matrix.Figure{Value: math.Exp(mean(logs))}, false // too few repeats
	}
	return matrix.FigureOfLogs(interval), !interval.Contains(0)
}

// maxShareDistance bounds how far from the estimate shareOf looks for an interval's ends.
const maxShareDistance = 100

// shareOf returns the share of one change's logarithms in the total. Its interval holds every
// share r for which own − r·total may be zero (Fieller 1954). That is one stretch around the
// estimate wherever the total is certainly not zero.
func shareOf(own, total []float64, at matrix.Level) matrix.Figure {
	estimate := mean(own) / mean(total)
	isPossible := func(r float64) bool {
		rest := floats.AddScaledTo(make([]float64, len(own)), own, -r, total)
		interval, err := stats.MeanInterval(rest, at.Confidence())
		return err == nil && interval.Contains(0)
	}
	end := func(beyond float64) float64 {
		inside, outside := estimate, beyond
		for range 60 { // halvings: to the last digit
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
