package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// searching is a search in a server that answers within 1 ms up to a capacity,
// and ever later above it; each rate is tried so often.
func searching(t *testing.T, capacity float64, tries int, rates ...float64) *record.Record {
	t.Helper()
	r := truth{variant: "fake", bytes: 64, clients: 100, mean: time.Millisecond}.record(t, 1)
	r.Cell.Load = record.Load{Model: "search", Goal: "p99<10ms", DurationNS: int64(time.Second)}
	r.Search = &record.Search{}
	for try := range tries {
		for _, rate := range rates {
			step := record.Step{RatePerSecond: rate, AchievedPerSecond: min(rate, capacity), FigureNS: int64(1e6 * (1 + 0.01*float64(try))), Kept: true}
			if rate > capacity {
				step.FigureNS += int64(1e9 * (rate - capacity) / capacity)
				step.Kept, step.Why = false, "P99 of the response time was above 10ms"
			}
			r.Search.Steps = append(r.Search.Steps, step)
		}
	}
	return r
}

func TestASearchIsReadBetweenItsRates(t *testing.T) {
	r := searching(t, 4000, 3, 2000, 2800, 3400, 3900, 4100, 4800, 5600)
	r.Search.KeptPerSecond, r.Search.MissedPerSecond = 3900, 4100
	s := summarize(t, []*record.Record{r}).Cells[0].Search
	if s == nil || s.Kept.Value != 3900 || s.Missed.Value != 4100 || s.Percentile != 99 || s.LimitUS != 10_000 {
		t.Fatalf("a search of p99<10ms that kept 3,900 and missed 4,100 gives %+v", s)
	}
	if len(s.Steps) != 21 || s.Steps[0].Offered != 2000 || s.Steps[20].Kept || s.Steps[20].Achieved != 4000 {
		t.Errorf("21 steps from 2,000 to 5,600 are %+v", s.Steps)
	}
	if half := s.Threshold; half.Interval == nil || half.Interval.Low < 3800 || half.Interval.Low > 4000 || half.Interval.High < 4000 || half.Interval.High > 4200 {
		t.Errorf("half of the tries keep the goal at 4,000/s, and by the tries at %v, %+v", half.Value, half.Interval)
	}
	if k := s.Knee; !k.Found || *k.Rate < 3400 || *k.Rate > 4100 || !(*k.Low < 4000) || !(*k.High >= 3900) || *k.Confidence != 0.95 {
		t.Errorf("the capacity is 4,000/s, and the knee %.0f, from %.0f to %.0f", *k.Rate, *k.Low, *k.High)
	}
}

// A percentile of a try of too few requests is not shown. Older records do not say how
// many there were.
func TestATryOfFewRequestsHasNoPercentile(t *testing.T) {
	for requests, known := range map[int64]bool{0: true, 999: false, 1000: true} {
		r := searching(t, 4000, 1, 2000)
		r.Search.Steps[0].Requests = requests
		if step := summarize(t, []*record.Record{r}).Cells[0].Search.Steps[0]; (step.Microseconds != nil) != known {
			t.Errorf("the P99 of %d requests is %v", requests, step.Microseconds)
		}
	}
}

// From three searches on, the interval is of their scatter. One whose rates all kept the
// goal tells no threshold.
func TestTheThresholdOfRepeatedSearches(t *testing.T) {
	rates := []float64{2800, 3400, 3900, 4100, 4800}
	var records []*record.Record
	for i, capacity := range []float64{3600, 4000, 4400, 1e6} {
		r := searching(t, capacity, 3, rates...)
		r.Repeat = i + 1
		records = append(records, r)
	}
	half := summarize(t, records).Cells[0].Search.Threshold
	if half.Interval == nil || half.Interval.Low > 3600 || half.Interval.High < 4300 || half.Interval.High > 6000 {
		t.Errorf("of capacities from 3,600 to 4,400: %v, %+v", half.Value, half.Interval)
	}
	if never := summarize(t, records[3:]).Cells[0].Search.Threshold; !math.IsNaN(never.Value) || never.Interval != nil {
		t.Errorf("no try failed, and half of them keep the goal at %v, %+v", never.Value, never.Interval)
	}
}

func TestAVoteOfTwoTriesShowsAKnee(t *testing.T) {
	r := searching(t, 4000, 2, 2000, 2800, 3400, 3900, 4100, 4800, 5600)
	k := summarize(t, []*record.Record{r}).Cells[0].Search.Knee
	if !k.Found || *k.Confidence != 0.95 || !(*k.Low < 4000) || !(*k.High >= 3900) {
		t.Errorf("two tries of a rate give %+v", k)
	}
}

func TestTheKneeOfASearchIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		tries  int
		rates  []float64
		reason string
	}{
		"one try":           {1, []float64{2000, 2800, 3400, 3900, 4100, 4800}, "2 tries each; the search has 0 such rates"},
		"four rates":        {3, []float64{2000, 3900, 4100, 5600}, "5 rates with 2 tries each; the search has 4 such rates"},
		"below the knee":    {3, []float64{1000, 1400, 1800, 2200, 2600, 3000}, "no bend"},
		"nothing was tried": {3, nil, "the search has 0 such rates"},
	} {
		t.Run(name, func(t *testing.T) {
			k := summarize(t, []*record.Record{searching(t, 4000, c.tries, c.rates...)}).Cells[0].Search.Knee
			if k.Found || !strings.Contains(k.Reason, c.reason) {
				t.Errorf("%+v, want it refused with %q", k, c.reason)
			}
		})
	}
}

// What is after a rate has no latency to be compared, and what is sent on a
// schedule no throughput.
func TestALoadIsComparedByWhatItTells(t *testing.T) {
	for model, want := range map[string][]string{
		"closed": {matrix.Mean, matrix.P99, matrix.Throughput, matrix.CPU}, "burst": {matrix.Mean, matrix.P99, matrix.Throughput, matrix.CPU},
		"open": {matrix.Mean, matrix.P99, matrix.CPU}, "sustained": {matrix.Mean, matrix.P99, matrix.CPU}, "ramp": {matrix.Mean, matrix.P99, matrix.CPU}, "search": {matrix.Throughput},
	} {
		run := synthetic{seed: 1, noise: 0.01, repeats: 3, truths: []truth{
			{variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond}, {variant: "grpc", bytes: 64, clients: 1, mean: time.Millisecond},
		}}
		records := run.records(t)
		for _, r := range records {
			r.Cell.Load = record.Load{Model: model}
		}
		var got []string
		for _, c := range summarize(t, records).Comparisons {
			got = append(got, c.Metric)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s is compared by %v, want %v", model, got, want)
		}
	}
}

func TestABurstDrains(t *testing.T) {
	run := synthetic{seed: 1, noise: 0.02, repeats: 3, truths: []truth{{variant: "tcp", bytes: 64, clients: 50, mean: time.Millisecond}}}
	records := run.records(t)
	for _, r := range records {
		r.Cell.Load, r.WindowNS = record.Load{Model: "burst", Burst: 200}, int64(125*time.Millisecond)
	}
	cell := summarize(t, records).Cells[0]
	if cell.Drain == nil || cell.Drain.Value != 125_000 || cell.Drain.Interval == nil {
		t.Errorf("a burst with a window of 125 ms drains in %+v µs", cell.Drain)
	}
	if closed := run.summarize(t).Cells[0]; closed.Drain != nil || closed.Course != nil || closed.Search != nil {
		t.Errorf("a closed loop has %+v, %+v, %+v", closed.Drain, closed.Course, closed.Search)
	}
}

func TestARampIsFollowed(t *testing.T) {
	r := truth{variant: "tcp", bytes: 64, clients: 50, mean: time.Millisecond}.record(t, 1)
	r.Cell.Load = record.Load{Model: "ramp", RatePerSecond: 100, RampTo: 1100, DurationNS: int64(6 * time.Second)}
	r.Intervals = append(r.Intervals, record.Interval{StartNS: -1e8, TookNS: 1e8, Requests: 1e6, SumNS: 1e15}) // warm-up
	for i := range 61 {                                                                                        // the last one is after the schedule's end
		offered := 100 + 1000*(float64(i)+0.5)/60
		answered := int64(math.Round(min(offered, 800) / 10)) // in a tenth of a second
		r.Intervals = append(r.Intervals, record.Interval{StartNS: int64(i) * 1e8, TookNS: 1e8, Requests: answered, SumNS: answered * 2e6})
	}
	course := summarize(t, []*record.Record{r, r}).Cells[0].Course
	if len(course) != 60 {
		t.Fatalf("%d stretches, want %d", len(course), 60)
	}
	for i, p := range course {
		offered := 100 + 1000*(float64(i)+0.5)/60
		within(t, "the rate offered", *p.Offered, offered, 0.001)
		within(t, "the rate answered", p.Throughput, min(offered, 800), 0.05)
		within(t, "the time of a call", *p.MeanUS, 2000, 0.001)
		within(t, "the second", p.Seconds, (float64(i)+0.5)/10, 0.001)
	}
}

// The course of a closed loop ends with its last whole interval: one that a request cut
// short, and one in which clients had ended, make no spike and no fall.
func TestAClosedLoopIsFollowed(t *testing.T) {
	r := truth{variant: "tcp", bytes: 64, clients: 50, mean: time.Millisecond}.record(t, 1)
	r.WindowNS = int64(time.Second)
	for i := range 100 {
		r.Intervals = append(r.Intervals, record.Interval{StartNS: int64(i) * 1e7, TookNS: 1e7, Requests: 100, SumNS: 100 * 2e6})
	}
	r.Intervals = append(r.Intervals,
		record.Interval{StartNS: 1e9 - 1e6, TookNS: 1e7, Requests: 3, SumNS: 1e9}, // clients end
		record.Interval{StartNS: 1e9 - 5e5, TookNS: 1e4, Requests: 100, SumNS: 1}) // cut short
	course := summarize(t, []*record.Record{r, r}).Cells[0].Course
	if len(course) != 30 {
		t.Fatalf("%d stretches, want %d", len(course), 30)
	}
	for _, p := range course {
		within(t, "the rate", p.Throughput, 10_000, 0.001)
		within(t, "the time of a call", *p.MeanUS, 2000, 0.001)
		if p.Offered != nil {
			t.Errorf("%v/s offered in a closed loop", *p.Offered)
		}
	}
	r.Intervals = r.Intervals[:2*8-1]
	if course := summarize(t, []*record.Record{r}).Cells[0].Course; course != nil {
		t.Errorf("%d intervals make a course of %d", len(r.Intervals), len(course))
	}
}

// A warm-up of 200 ms in which calls are slow, and a server that stands still for 100 ms in
// the middle of the window, are seen where they were.
func TestTheCourseHasWarmUpTailAndCPU(t *testing.T) {
	r := truth{variant: "tcp", bytes: 64, clients: 50, mean: time.Millisecond}.record(t, 1)
	r.WindowNS, r.WarmUp.TookNS = int64(time.Second), 2e8
	c := record.Course{BeginNS: -2e8, StretchNS: 1 << 24}
	for at := c.BeginNS; at < 1e9; at += c.StretchNS {
		p99, used := new(int64(3e6)), c.StretchNS/2
		switch {
		case at < 0:
			p99 = new(int64(9e6))
		case at >= 5e8 && at < 6e8:
			p99, used = nil, 0
		}
		c.Calls, c.P99NS, c.ServerCPUNS = append(c.Calls, 1000), append(c.P99NS, p99), append(c.ServerCPUNS, used)
	}
	r.Course = &c
	for at := c.BeginNS; at <= 1e9; at += 1e7 {
		r.Intervals = append(r.Intervals, record.Interval{StartNS: at, TookNS: 1e7, Requests: 100, SumNS: 100 * 2e6})
	}
	points := summarize(t, []*record.Record{r, r}).Cells[0].Course
	warming, still := 0, 0
	for _, p := range points {
		if p.ClientCores != nil {
			t.Fatalf("the client's CPU is known to be %v, and was not sampled", *p.ClientCores)
		}
		switch { // what lies across an edge is either
		case p.Seconds < -0.02:
			warming++
			within(t, "P99 in warm-up", *p.P99US, 9000, 0.001)
		case p.Seconds > 0.53 && p.Seconds < 0.57:
			if still++; p.P99US != nil || *p.ServerCores != 0 {
				t.Errorf("after %v s the server stood still: P99 %v, %v cores", p.Seconds, p.P99US, *p.ServerCores)
			}
		case p.Seconds > 0.02 && p.Seconds < 0.48, p.Seconds > 0.63:
			within(t, "P99", *p.P99US, 3000, 0.001)
			within(t, "the server's CPUs", *p.ServerCores, 0.5, 0.001)
		}
	}
	if warming < 4 || still < 1 {
		t.Errorf("%d stretches of warm-up and %d of standing still", warming, still)
	}
	r.Course.P99NS, r.Course.ServerCPUNS = nil, r.Course.ServerCPUNS[:1] // a damaged file
	summarize(t, []*record.Record{r})
}

func TestDensity(t *testing.T) {
	r := truth{variant: "tcp", bytes: 64, clients: 50, mean: time.Millisecond}.record(t, 1)
	cell := summarize(t, []*record.Record{r, r}).Cells[0]
	var all, most, at float64
	for i, p := range cell.Density {
		all += p[1]
		if p[1] > most {
			at, most = p[0], p[1]
		}
		if i > 0 {
			within(t, "a step over the one before", p[0]/cell.Density[i-1][0], math.Exp2(1./12), 1e-3)
		}
	}
	within(t, "all requests but a thousandth", all, 0.999, 0.002)
	within(t, "the step that has most of them", at, cell.Service.P50.Value, 1./12)
}
