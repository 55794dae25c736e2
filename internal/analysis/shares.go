package analysis

import (
	"math"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stats"
)

// Layer is one of the things in which REST with JSON on a framework differs
// from gRPC.
type Layer string

// The layers, in the order in which they are exchanged.
const (
	Library   Layer = "library"   // gRPC's by plain HTTP requests, both over HTTP/2
	Encoding  Layer = "encoding"  // protobuf by JSON
	HTTP      Layer = "http"      // HTTP/2 by HTTP/1.1
	Framework Layer = "framework" // plain handlers by a framework, with resource paths and its own JSON
)

// rungs are the variants on the way from gRPC to REST as people write it: from
// one to the next a single layer is exchanged.
var rungs = []struct {
	stack, codec string
	layer        Layer // that was exchanged to come here
}{
	{"grpc", "", ""},
	{"h2", "", Library},
	{"h2", "json", Encoding},
	{"h1", "json", HTTP},
	{"rest-json", "", Framework},
}

// Shares tells how a difference between two variants comes about, layer by
// layer. Ratios multiply, so the shares are of the logarithm of the ratio.
type Shares struct {
	Part         string
	Workload     string
	RequestBytes int
	Clients      int
	Metric       string // CPU, Mean or Throughput
	From, To     string // variants
	Pairs        int    // repeats in which all variants have a valid trial
	Ratio        Figure // of the last variant over the first
	// Decided tells whether the ratio is beyond doubt not 1. Without that there
	// is nothing to share out.
	Decided bool
	Steps   []ShareStep
}

// ShareStep is one layer's part.
type ShareStep struct {
	Layer    Layer
	From, To string // variants
	Ratio    Figure
	Decided  bool   // the ratio is beyond doubt not 1
	Share    Figure // below zero where the layer makes up for others
}

// shared are the figures whose differences are shared out.
var shared = []struct {
	name string
	of   metric
}{
	{CPU, cpuOfBoth},
	{Throughput, throughput},
	{Mean, meanResponse},
}

// findShares looks for all rungs side by side at one point.
func findShares(points []*point) []Shares {
	var all []Shares
	for _, rivals := range groupBy(points, (*point).contest) {
		for _, first := range rivals {
			ladder := ladderFrom(first, rivals)
			if ladder == nil {
				continue
			}
			for _, f := range shared {
				if !tells(first.cell.Load.Model, f.name) {
					continue
				}
				if s, ok := sharesOf(ladder, f.of); ok {
					s.Metric = f.name
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// ladderFrom is nil where first is not the lowest rung, or another is missing.
// All must be set to the same in what is not exchanged.
func ladderFrom(first *point, rivals []*point) []*point {
	var ladder []*point
	_, _, common := rungOf(first)
	for _, rung := range rungs {
		i := slices.IndexFunc(rivals, func(p *point) bool {
			stack, codec, rest := rungOf(p)
			return stack == rung.stack && codec == rung.codec && rest == common && len(p.valid()) > 0
		})
		if i < 0 {
			return nil
		}
		ladder = append(ladder, rivals[i])
	}
	if ladder[0] != first {
		return nil
	}
	return ladder
}

// rungOf takes a variant apart into what is exchanged and the rest.
func rungOf(p *point) (stack, codec, rest string) {
	v, err := scenario.ParseVariant(p.cell.Variant)
	if err != nil {
		return "", "", "" // a name from elsewhere stands on no ladder
	}
	stack = v.Stack
	codec, _ = v.Get("codec")
	v.Stack = ""
	v.Options = slices.DeleteFunc(v.Options, func(s scenario.Setting) bool { return s.Key == "codec" })
	return stack, codec, v.String()
}

// sharesOf is false where the figure was not measured on every rung.
func sharesOf(ladder []*point, of metric) (Shares, bool) {
	logs := logsOf(ladder, of)
	if len(logs[0]) == 0 {
		return Shares{}, false
	}
	first, last := ladder[0], ladder[len(ladder)-1]
	total := differences(logs[len(logs)-1], logs[0])
	s := Shares{
		Part: first.cell.Part, Workload: first.cell.Workload, RequestBytes: first.cell.RequestBytes, Clients: first.cell.Clients,
		From: first.cell.Variant, To: last.cell.Variant, Pairs: len(total),
	}
	s.Ratio, s.Decided = ratioOf(total)
	for i := 1; i < len(ladder); i++ {
		step := ShareStep{Layer: rungs[i].layer, From: ladder[i-1].cell.Variant, To: ladder[i].cell.Variant}
		own := differences(logs[i], logs[i-1])
		step.Ratio, step.Decided = ratioOf(own)
		if s.Decided {
			step.Share = shareOf(own, total)
		}
		s.Steps = append(s.Steps, step)
	}
	return s, true
}

// logsOf are the logarithms of a figure, by rung and repeat, of the repeats in
// which every rung has it.
func logsOf(ladder []*point, of metric) [][]float64 {
	logs := make([][]float64, len(ladder))
	for _, t := range ladder[0].valid() {
		var row []float64
		for _, p := range ladder {
			valid := p.valid()
			i := slices.IndexFunc(valid, func(other trial) bool { return other.Repeat == t.Repeat })
			if i < 0 || !(of(valid[i]) > 0) {
				break
			}
			row = append(row, math.Log(of(valid[i])))
		}
		if len(row) < len(ladder) {
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

// ratioOf is what logarithms of ratios come to, and whether it is beyond doubt
// not 1.
func ratioOf(logs []float64) (Figure, bool) {
	interval, err := stats.MeanInterval(logs, confidence)
	if err != nil {
		return Figure{Value: math.Exp(mean(logs))}, false // too few repeats
	}
	return Figure{
		Value:    math.Exp(interval.Estimate),
		Interval: &Interval{Low: math.Exp(interval.Low), High: math.Exp(interval.High), Confidence: confidence},
	}, !interval.Contains(0)
}

// farthestShare bounds where the ends of a share's interval are looked for.
const farthestShare = 100

// shareOf is the share that one layer's logarithms have in the total's. Its
// interval holds every share r for which own − r·total may be zero (Fieller
// 1954); that is a stretch around the estimate wherever the total is beyond
// doubt not zero.
func shareOf(own, total []float64) Figure {
	estimate := mean(own) / mean(total)
	mayBe := func(r float64) bool {
		rest := make([]float64, len(own))
		for i := range own {
			rest[i] = own[i] - r*total[i]
		}
		interval, err := stats.MeanInterval(rest, confidence)
		return err == nil && interval.Contains(0)
	}
	end := func(beyond float64) float64 {
		inside, outside := estimate, beyond
		for range 60 { // halvings: to the last digit
			if middle := (inside + outside) / 2; mayBe(middle) {
				inside = middle
			} else {
				outside = middle
			}
		}
		return inside
	}
	low, high := estimate-farthestShare, estimate+farthestShare
	if mayBe(low) || mayBe(high) {
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
