package analysis

import (
	"math"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/stats"
)

// Verdict says whether a difference is real.
type Verdict string

// The verdicts of a comparison; faster and slower speak of A.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	Equivalent Verdict = "equivalent"
	Undecided  Verdict = "undecided"
)

// The metrics of comparisons.
const (
	Mean       = "mean"       // response time
	P99        = "p99"        // response time
	Throughput = "throughput" // not of a load on a schedule, which sends what it is told to
)

// Comparison holds two variants against each other at one point. P is by
// Student's t over the logarithms, with the noise that the run's comparisons of
// this metric have in common, Holm-adjusted over them.
type Comparison struct {
	Part          string      `json:"part"`
	A             string      `json:"a"` // a variant
	B             string      `json:"b"` // a variant
	Workload      string      `json:"workload"`
	RequestBytes  int         `json:"request_bytes"`
	ResponseBytes int         `json:"response_bytes"`
	Clients       int         `json:"clients"`
	Load          record.Load `json:"load"`                                                                        // without an in-flight limit, which is the variant's
	Metric        string      `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput"`                      // what the ratio is of: mean, p99 or throughput
	Pairs         int         `json:"pairs"`                                                                       // repeats in which both trials are valid
	Ratio         Figure      `json:"ratio"`                                                                       // A's over B's, paired by repeat
	P             float64     `json:"p" jsonschema:"nullable"`                                                     // of a ratio this far from 1 where there is no difference, Holm-adjusted; null with too few trials
	Verdict       Verdict     `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=equivalent,enum=undecided"` // faster, slower, equivalent or undecided; the first two speak of A
	Margin        float64     `json:"margin"`                                                                      // within it they count as equivalent; 0.05 for 5 %
}

// margin is the relative difference that does not matter: below it the choice
// between two wires is made by other things.
const margin = 0.05

var rule = stats.Rule{Margin: margin, Confidence: confidence}

// contended is what variants are compared by.
var contended = []struct {
	name         string
	of           metric
	moreIsFaster bool
}{
	{Mean, meanResponse, false},
	{P99, p99Response, false},
	{Throughput, throughput, true},
}

// compareAll compares every two variants wherever all else is equal. Each metric
// is a family of its own to Holm: they are different questions, and the mean and
// the throughput of a closed loop are one figure seen twice.
func compareAll(points []*point) []Comparison {
	var all []Comparison
	for _, m := range contended {
		var family []judged
		for _, rivals := range groupBy(points, (*point).contest) {
			if !tells(rivals[0].cell.Load.Model, m.name) {
				continue
			}
			for i, a := range rivals {
				for _, b := range rivals[i+1:] {
					c, enough := compare(a, b, m.of)
					c.Metric = m.name
					if enough != nil {
						family = append(family, judged{sample: *enough, at: len(all)})
					}
					if c.Ratio.Value > 0 {
						all = append(all, c)
					}
				}
			}
		}
		decide(family, func(at int, verdict stats.Comparison) {
			c := &all[at]
			c.P, c.Verdict = verdict.P, inTermsOfSpeed(verdict.Verdict, m.moreIsFaster)
			c.Ratio.Interval = &Interval{Low: verdict.Ratio.Low, High: verdict.Ratio.High, Confidence: confidence}
		})
	}
	return all
}

// tells tells whether a metric says something of a variant under a load. A
// schedule sends what it is told to, whoever answers; a search ends at another
// rate for each variant, and what it is after is that rate.
func tells(model, metric string) bool {
	switch model {
	case "open", "sustained", "ramp":
		return metric != Throughput
	case "search":
		return metric == Throughput
	}
	return true
}

// judged is a comparison that has trials enough for a verdict.
type judged struct {
	sample
	at int // among all comparisons
}

// decide gives the verdicts of one family.
func decide(family []judged, tell func(at int, verdict stats.Comparison)) {
	samples := make([]sample, len(family))
	for i, j := range family {
		samples[i] = j.sample
	}
	usual := estimateNoise(samples)
	verdicts := make([]stats.Comparison, len(family))
	for i, s := range samples {
		verdicts[i] = usual.judge(s)
	}
	for i, verdict := range stats.CorrectFamily(verdicts, rule) {
		tell(family[i].at, verdict)
	}
}

// compare gives the ratio of A to B, and what a verdict on it can be built on,
// or nil where there are too few trials for one. The ratio is zero where one of
// the two has no valid trial.
func compare(a, b *point, of metric) (Comparison, *sample) {
	c := Comparison{
		Part: a.cell.Part, A: a.cell.Variant, B: b.cell.Variant, Workload: a.cell.Workload,
		RequestBytes: a.cell.RequestBytes, ResponseBytes: a.cell.ResponseBytes,
		Clients: a.cell.Clients, Load: a.contest().load,
		P: math.NaN(), Verdict: Undecided, Margin: margin,
	}
	if len(a.valid()) == 0 || len(b.valid()) == 0 {
		return c, nil
	}
	c.Ratio = ratio(a, b, of)
	ofA, ofB := pairs(a, b, of)
	c.Pairs = len(ofA)
	if c.Pairs < leastTrials || !arePositive(ofA) || !arePositive(ofB) {
		return c, nil
	}
	s := newSample(ofA, ofB)
	return c, &s
}

func inTermsOfSpeed(v stats.Verdict, moreIsFaster bool) Verdict {
	switch {
	case v == stats.Equivalent:
		return Equivalent
	case v == stats.Higher && moreIsFaster, v == stats.Lower && !moreIsFaster:
		return Faster
	case v == stats.Higher || v == stats.Lower:
		return Slower
	}
	return Undecided
}

// Against is a metric of a cell over that of another variant at the same point;
// nil where the two were not compared by it.
func (s *Summary) Against(c *Cell, other, metric string) *Figure {
	load := c.Load
	load.InFlightLimit = 0
	for _, found := range s.Comparisons {
		if found.Metric != metric || found.Part != c.Part || found.Workload != c.Workload || found.Clients != c.Clients || found.Load != load ||
			found.RequestBytes != c.RequestBytes || found.ResponseBytes != c.ResponseBytes {
			continue
		}
		switch {
		case found.A == c.Variant && found.B == other:
			return &found.Ratio
		case found.B == c.Variant && found.A == other:
			ratio := found.Ratio.Inverse()
			return &ratio
		}
	}
	return nil
}

// Inverse is the ratio seen from the other side.
func (f Figure) Inverse() Figure {
	inverted := Figure{Value: 1 / f.Value}
	if i := f.Interval; i != nil {
		inverted.Interval = &Interval{Low: 1 / i.High, High: 1 / i.Low, Confidence: i.Confidence}
	}
	return inverted
}
