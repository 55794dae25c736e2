package analysis

import (
	"iter"
	"math"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// Verdict says whether a difference is real.
type Verdict string

// The verdicts of a comparison; faster and slower speak of A, as do [More] and [Less]
// where CPU time is compared.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	Equivalent Verdict = "equivalent"
	Undecided  Verdict = "undecided"
)

// The metrics of comparisons, besides [CPU].
const (
	Mean       = "mean"       // response time
	P99        = "p99"        // response time
	Throughput = "throughput" // not of a load on a schedule, which sends what it is told to
)

// Comparison holds two variants against each other at one point. P is by
// Student's t over the logarithms, with the noise that the run's comparisons of
// this metric have in common, Holm-adjusted over them.
type Comparison struct {
	Part string `json:"part"`
	A    string `json:"a"` // a variant
	B    string `json:"b"` // a variant
	record.Place
	Load    record.Load `json:"load"`                                                                                            // without an in-flight limit, which is the variant's
	Metric  string      `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`                                 // what the ratio is of: mean, p99, throughput or cpu, which is CPU time a request of both ends
	Pairs   int         `json:"pairs"`                                                                                           // repeats in which both trials are valid
	Ratio   Figure      `json:"ratio"`                                                                                           // A's over B's, paired by repeat
	P       float64     `json:"p" jsonschema:"nullable"`                                                                         // of a ratio this far from 1 where there is no difference, Holm-adjusted; null with too few trials
	Verdict Verdict     `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // faster or slower (of cpu less or more), equivalent or undecided; the first four speak of A
	Margin  float64     `json:"margin"`                                                                                          // within it they count as equivalent; 0.05 for 5 %
}

// P99Requests is how many a trial needs to be compared by its P99.
var P99Requests = stats.LeastCount(0.99)

// margin is the relative difference that does not matter: below it other reasons
// decide between two wires.
const margin = 0.05

var rule = stats.Rule{Margin: margin, Confidence: confidence}

// metrics are what variants are compared by, by name.
var metrics = map[string]metric{
	Mean:       meanResponse,
	P99:        p99Response,
	Throughput: throughput,
	CPU:        cpuOfBoth,
	Handshake:  func(t trial) float64 { return t.handshake.quantile(0.5) },
	FirstByte:  func(t trial) float64 { return t.firstByte.quantile(0.5) },
	ServerPeak: peakOfServer,
}

// The direction that is better: what a verdict of package stats means for a time, for a
// throughput, and for a figure where neither more nor less is better by itself.
var (
	ofTime       = map[stats.Verdict]Verdict{stats.Lower: Faster, stats.Higher: Slower, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofThroughput = map[stats.Verdict]Verdict{stats.Lower: Slower, stats.Higher: Faster, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofSize       = map[stats.Verdict]Verdict{stats.Lower: Less, stats.Higher: More, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
)

var directions = map[string]map[stats.Verdict]Verdict{Mean: ofTime, P99: ofTime, Throughput: ofThroughput, CPU: ofSize}

// compareAll compares every two variants wherever all else is equal. Each metric
// is a family of its own to Holm: they are different questions, and the mean and
// the throughput of a closed loop are one figure seen twice. The powers are the metrics'.
func compareAll(points []*point) (all []Comparison, powers []Power) {
	for _, name := range []string{Mean, P99, Throughput, CPU} {
		family := familyOf(points)
		of, verdicts := metrics[name], directions[name]
		for a, b := range compared(rivals(points), name) {
			c := compare(a, b, of)
			if c.Metric = name; !(c.Ratio.Value > 0) {
				continue
			}
			at := len(all)
			all = append(all, c)
			family.add(a, b, of, func(verdict stats.Comparison) {
				c := &all[at]
				c.P, c.Verdict = verdict.P, verdicts[verdict.Verdict]
				c.Ratio.Interval = estimated(verdict.Ratio).Interval
			})
		}
		family.judge()
		if p := family.power(); p != nil {
			p.Metric = name
			powers = append(powers, *p)
		}
	}
	return all, powers
}

// compared yields every two rivals that a metric can tell apart.
func compared(groups [][]*point, metric string) iter.Seq2[*point, *point] {
	return func(yield func(a, b *point) bool) {
		for _, group := range groups {
			for i, a := range group {
				for _, b := range group[i+1:] {
					if isMeaningful(a.cell.Load.Model, metric) && !yield(a, b) {
						return
					}
				}
			}
		}
	}
}

// isMeaningful reports whether a metric can differ between variants under a load. A
// schedule sends at its own rate, whatever the variant. A search ends at another rate
// for each variant, and that rate is what it looks for.
func isMeaningful(model, metric string) bool {
	switch model {
	case "open", "sustained", "ramp", record.Paced:
		return metric != Throughput
	case "search":
		return metric == Throughput
	}
	return true
}

// family is the comparisons that are judged together; accept receives each verdict.
type family struct {
	level   level
	samples []sample
	accept  []func(stats.Comparison)
}

// familyOf is for comparisons of points, which are all of one run.
func familyOf(points []*point) family {
	if len(points) == 0 {
		return family{}
	}
	return family{level: points[0].level}
}

// add adds the ratio of A to B, unless there are too few trials for a verdict.
func (f *family) add(a, b *point, of metric, accept func(stats.Comparison)) {
	ofA, ofB := pairs(a, b, of)
	if len(ofA) >= LeastTrials && arePositive(ofA) && arePositive(ofB) {
		f.samples, f.accept = append(f.samples, newSample(ofA, ofB)), append(f.accept, accept)
	}
}

// judge computes the verdicts and passes them on.
func (f *family) judge() {
	usual := estimateNoise(f.samples)
	verdicts := make([]stats.Comparison, len(f.samples))
	for i, s := range f.samples {
		verdicts[i] = usual.judge(s, f.level)
	}
	for i, verdict := range stats.CorrectFamily(verdicts, rule) {
		f.accept[i](verdict)
	}
}

// compare gives the ratio of A to B, without a verdict on it.
func compare(a, b *point, of metric) Comparison {
	ofA, _ := pairs(a, b, of)
	same := a.conditions()
	return Comparison{
		Part: same.Part, A: a.cell.Variant, B: b.cell.Variant, Place: same.Place, Load: same.Load, Pairs: len(ofA),
		Ratio: ratio(a, b, of), P: math.NaN(), Verdict: Undecided, Margin: margin,
	}
}

// Against is a metric of a cell over that of another variant at the same point;
// nil where the two were not compared by it.
func (s *Summary) Against(c *Cell, other, metric string) *Figure {
	found, turned := s.comparison(c, other, metric)
	switch {
	case found == nil:
		return nil
	case turned:
		return new(found.Ratio.Inverse())
	}
	return &found.Ratio
}

// comparison finds that of a cell with another variant at the same point; turned
// where the other is its A.
func (s *Summary) comparison(c *Cell, other, metric string) (found *Comparison, turned bool) {
	load := c.Load
	load.InFlightLimit = 0
	for i := range s.Comparisons {
		found := &s.Comparisons[i]
		if found.Metric != metric || found.Part != c.Part || found.Place != c.Place || found.Load != load {
			continue
		}
		switch {
		case found.A == c.Variant && found.B == other:
			return found, false
		case found.B == c.Variant && found.A == other:
			return found, true
		}
	}
	return nil, false
}

// Inverse is the ratio seen from the other side.
func (f Figure) Inverse() Figure {
	inverted := Figure{Value: 1 / f.Value}
	if i := f.Interval; i != nil {
		inverted.Interval = &Interval{Low: 1 / i.High, High: 1 / i.Low, Confidence: i.Confidence}
	}
	return inverted
}
