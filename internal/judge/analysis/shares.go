package analysis

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// Shares says how the difference between a part's first variant and its last
// comes about, change by change. Ratios multiply, so the shares are of the
// logarithm of the ratio. A variant without a valid trial ends the way: then the last is
// the one before it.
type Shares struct {
	Part string `json:"part"`
	record.Place
	Metric  string      `json:"metric" jsonschema:"enum=cpu,enum=throughput,enum=mean"` // of a contrast or a comparison
	From    string      `json:"from"`                                                   // a variant
	To      string      `json:"to"`                                                     // a variant
	Pairs   int         `json:"pairs"`                                                  // repeats in which all variants have a valid trial
	Ratio   Figure      `json:"ratio"`                                                  // of the last variant over the first
	Decided bool        `json:"decided"`                                                // the ratio is beyond doubt not 1; else there is nothing to share out
	Steps   []ShareStep `json:"steps"`
}

// ShareStep is one change's part.
type ShareStep struct {
	Change  string  `json:"change"` // as the scenario says
	From    string  `json:"from"`   // a variant
	To      string  `json:"to"`     // a variant
	Ratio   Figure  `json:"ratio"`
	Decided bool    `json:"decided"` // the ratio is beyond doubt not 1
	Share   *Figure `json:"share"`   // below zero where the change makes up for others; null where there is nothing to share out
}

// findShares looks for all variants of a part with changes, side by side at one
// point.
func findShares(s *study, points []*point) []Shares {
	var all []Shares
	for _, group := range rivals(points) {
		for _, c := range s.changes {
			variants := pick(group, c.variants)
			if c.part != group[0].cell.Part || len(variants) < leastVariants {
				continue
			}
			for _, name := range []string{CPU, Throughput, Mean} {
				if !isMeaningful(group[0].cell.Load.Model, name) {
					continue
				}
				if s, ok := sharesOf(variants, c.texts, metrics[name]); ok {
					s.Metric = name
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// leastVariants is how many must have been measured: with one change there is nothing to
// share out.
const leastVariants = 3

// pick returns the points of the variants, in their order, up to the first that is missing.
func pick(points []*point, variants []string) []*point {
	var found []*point
	for _, variant := range variants {
		p := findVariant(points, variant)
		if p == nil {
			break
		}
		found = append(found, p)
	}
	return found
}

// sharesOf goes as far as there is a repeat in which every variant has the figure. It is
// false where that is not far enough.
func sharesOf(variants []*point, changes []string, of metric) (Shares, bool) {
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
	total := differences(logs[len(logs)-1], logs[0])
	s := Shares{
		Part: first.cell.Part, Place: first.cell.Place, From: first.cell.Variant, To: last.cell.Variant, Pairs: len(total),
	}
	s.Ratio, s.Decided = ratioOf(total, first.level)
	for i := 1; i < len(variants); i++ {
		step := ShareStep{Change: changes[i-1], From: variants[i-1].cell.Variant, To: variants[i].cell.Variant}
		own := differences(logs[i], logs[i-1])
		step.Ratio, step.Decided = ratioOf(own, first.level)
		if s.Decided {
			step.Share = new(shareOf(own, total, first.level))
		}
		s.Steps = append(s.Steps, step)
	}
	return s, true
}

// logsOf returns the logarithms of a figure by variant and repeat, for the repeats in
// which every variant has it.
func logsOf(variants []*point, of metric) [][]float64 {
	logs := make([][]float64, len(variants))
	for _, t := range variants[0].valid() {
		var row []float64
		for _, p := range variants {
			valid := p.valid()
			i := slices.IndexFunc(valid, func(other trial) bool { return other.Repeat == t.Repeat })
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

func differences(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] - b[i]
	}
	return all
}

// ratioOf turns logarithms of ratios into a ratio, and reports whether it is certainly
// not 1.
func ratioOf(logs []float64, at level) (Figure, bool) {
	interval, err := stats.MeanInterval(logs, at.confidence())
	if err != nil {
		return Figure{Value: math.Exp(mean(logs))}, false // too few repeats
	}
	return ofLogs(interval), !interval.Contains(0)
}

// maxShareDistance is how far from the estimate the ends of a share's interval are
// looked for.
const maxShareDistance = 100

// shareOf is the share that one change's logarithms have in the total's. Its
// interval holds every share r for which own − r·total may be zero (Fieller
// 1954); that is a stretch around the estimate wherever the total is beyond
// doubt not zero.
func shareOf(own, total []float64, at level) Figure {
	estimate := mean(own) / mean(total)
	isPossible := func(r float64) bool {
		rest := make([]float64, len(own))
		for i := range own {
			rest[i] = own[i] - r*total[i]
		}
		interval, err := stats.MeanInterval(rest, at.confidence())
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
		return Figure{Value: estimate}
	}
	return Figure{Value: estimate, Interval: &Interval{Low: end(low), High: end(high), Confidence: confidence}}
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
