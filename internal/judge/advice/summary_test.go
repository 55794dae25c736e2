package advice

import (
	"math"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// sampleRun says what the figures of each variant are in a test.
type sampleRun struct {
	part     string
	sizes    []record.Payload
	clients  []int
	variants []string
	trials   int
	model    string
	// mean and p99 are in microseconds.
	mean, p99 func(variant string, at rank.Point) float64
	cpu       func(variant string, at rank.Point) float64 // of both ends; nil for as much as the mean
	warmUpMS  float64
}

// spread is the half width of a figure's interval where there are three trials.
const spread = 0.02

func (y sampleRun) figure(value float64) matrix.Figure {
	f := matrix.Figure{Value: value}
	if y.trials >= 3 {
		f.Interval = &matrix.Interval{Low: value * (1 - spread), High: value * (1 + spread), Confidence: 0.95}
	}
	return f
}

// addTo adds the cells and their comparisons to a summary.
func (y sampleRun) addTo(s *analysis.Summary) {
	s.Planned += y.trials * len(y.sizes) * len(y.clients) * len(y.variants)
	s.Done = s.Planned
	cpu := y.cpu
	if cpu == nil {
		cpu = y.mean
	}
	for _, size := range y.sizes {
		for _, n := range y.clients {
			at := rank.Point{Size: size, Clients: n}
			for _, v := range y.variants {
				s.Cells = append(s.Cells, y.cell(v, at))
			}
			for i, a := range y.variants {
				for _, b := range y.variants[i+1:] {
					s.Comparisons = append(s.Comparisons,
						y.compare(matrix.Mean, y.mean, a, b, at), y.compare(matrix.P99, y.p99, a, b, at), y.compare(matrix.CPU, cpu, a, b, at))
				}
			}
		}
	}
}

// both are sizes of requests whose responses are as large.
func both(sizes ...int) []record.Payload {
	all := make([]record.Payload, len(sizes))
	for i, s := range sizes {
		all[i] = record.Payload{RequestBytes: s, ResponseBytes: s}
	}
	return all
}

func (y sampleRun) cell(variant string, at rank.Point) matrix.Cell {
	mean, p99 := y.mean(variant, at), y.p99(variant, at)
	cpu := y.figure(mean / float64(at.Clients) / 4)
	if y.cpu != nil {
		cpu = y.figure(y.cpu(variant, at) / 2)
	}
	c := matrix.Cell{
		Cell: record.Cell{
			Part: y.part, Variant: variant, Place: record.Place{Payload: at.Size, Clients: at.Clients},
			Load: record.Load{Model: y.model},
		},
		Trials: y.trials, Valid: y.trials,
		Throughput: y.figure(float64(at.Clients) / mean * 1e6),
		P99OverP50: y.figure(p99 / (0.9 * mean)),
		WarmUp:     y.figure(y.warmUpMS),
		ClientCPU:  &cpu, ServerCPU: &cpu,
	}
	c.Service.Mean, c.Service.P50, c.Service.P99 = y.figure(mean), y.figure(0.9*mean), y.figure(p99)
	for repeat := range y.trials {
		c.Repeats = append(c.Repeats, matrix.Repeat{Trial: repeat + 1, Valid: true, MeanUS: &mean})
	}
	return c
}

// compare calls equal what differs by less than a hundredth, undecided what
// differs by less than a tenth, and the rest a difference.
func (y sampleRun) compare(metric string, of func(string, rank.Point) float64, a, b string, at rank.Point) compare.Comparison {
	ratio := of(a, at) / of(b, at)
	c := compare.Comparison{
		Part: y.part, A: a, B: b, Place: record.Place{Payload: at.Size, Clients: at.Clients},
		Metric: metric, Ratio: y.figure(ratio), Verdict: compare.Undecided, Margin: 0.05, Pairs: y.trials,
	}
	less, more := compare.Faster, compare.Slower
	if metric == matrix.CPU {
		less, more = compare.Less, compare.More
	}
	switch apart := math.Abs(math.Log(ratio)); {
	case y.trials < 3:
	case apart < 0.01:
		c.Verdict = compare.Equivalent
	case apart > 0.1 && ratio < 1:
		c.Verdict = less
	case apart > 0.1:
		c.Verdict = more
	}
	return c
}

// usual returns a run of compare without options: tcp is fast but has a long tail with large
// messages from many clients, grpc is slow and steady.
func usual() sampleRun {
	factor := map[string]float64{"tcp": 1, "rest": 1.3, "grpc": 1.6}
	return sampleRun{
		part: "compare", sizes: both(64, 4096), clients: []int{1, 4, 16, 50, 100, 200},
		variants: []string{"tcp", "rest", "grpc"}, trials: 3, model: "closed", warmUpMS: 250,
		mean: func(variant string, at rank.Point) float64 {
			if variant == "rest" && at.Clients == 1 && at.Size.RequestBytes == 4096 {
				return 50.2
			}
			return 50 * factor[variant] * float64(max(at.Clients, 16)) / 16
		},
		p99: func(variant string, at rank.Point) float64 {
			mean := 50 * factor[variant] * float64(max(at.Clients, 16)) / 16
			switch {
			case variant == "grpc":
				return 1.4 * mean
			case variant == "tcp" && at.Size.RequestBytes == 4096 && at.Clients == 200:
				return 3 * mean
			default:
				return 2 * mean
			}
		},
	}
}

func knee(variant string, bytes int, by string, clients float64, reason string) curves.Knee {
	k := curves.Knee{Part: "compare", Variant: variant, Payload: record.Payload{RequestBytes: bytes, ResponseBytes: bytes}, By: by, Points: 6, Found: clients > 0, Reason: reason}
	if k.Found {
		k.Clients = &matrix.Figure{Value: clients, Interval: &matrix.Interval{Low: clients / 2, High: 2 * clients, Confidence: 0.95}}
	}
	return k
}
