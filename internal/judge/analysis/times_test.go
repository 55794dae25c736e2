package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// trialsOf makes a trial of each list of times, in microseconds.
func trialsOf(t *testing.T, trials ...[]float64) []*record.Record {
	t.Helper()
	var records []*record.Record
	for i, us := range trials {
		r := truth{variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond}.record(t, 1)
		r.Trial, r.Repeat, r.Requests = i, i+1, int64(len(us))
		recorder := latency.NewRecorder()
		for _, one := range us {
			recorder.Record(int64(one * 1e3))
		}
		var err error
		if r.Service, err = latency.NewHistogram(recorder).Distribution(); err != nil {
			t.Fatal(err)
		}
		recorder.Close()
		records = append(records, r)
	}
	return records
}

// spread returns count times, evenly from 1 to 2 times the factor.
func spread(count int, factor float64) []float64 {
	us := make([]float64, count)
	for i := range us {
		us[i] = factor * (1 + float64(i)/float64(count))
	}
	return us
}

func TestPercentilesAreOfAllTrialsTogether(t *testing.T) {
	trials := [][]float64{spread(1000, 98), spread(2000, 102), spread(3000, 130)}
	all := slices.Sorted(slices.Values(slices.Concat(trials...)))
	c := summarize(t, trialsOf(t, trials...)).Cells[0]
	for _, p := range []struct {
		name string
		at   float64
		got  matrix.Figure
	}{{"P50", 0.5, c.Service.P50}, {"P90", 0.9, c.Service.P90}, {"P99", 0.99, c.Service.P99}} {
		want := all[int(p.at*float64(len(all)))]
		within(t, p.name, p.got.Value, want, 0.002)
		if i := p.got.Interval; i == nil || i.Low > want || i.High < want {
			t.Errorf("%s has the interval %+v", p.name, i)
		}
	}
	within(t, "P99/P50", c.P99OverP50.Value, c.Service.P99.Value/c.Service.P50.Value, 1e-9)
	within(t, "mean", c.Service.Mean.Value, 150*math.Cbrt(0.98*1.02*1.3), 0.01)
	if c.Service.Max.Interval != nil || len(c.Service.Stalls) > 0 || len(c.Findings) > 0 {
		t.Errorf("the maximum has the interval %v; stalls %v, findings %v", c.Service.Max.Interval, c.Service.Stalls, c.Findings)
	}
	if n := len(c.Curve); n < 2 || c.Curve[n-1] != (matrix.CurvePoint{1, c.Service.Max.Value}) || math.Abs(c.Curve[n-2][0]-0.998) > 1e-9 { // of 6,000
		t.Errorf("the curve ends %v, the maximum is %v", c.Curve[n-2:], c.Service.Max.Value)
	}
}

func TestAPercentileTakesTenRequestsBeyondIt(t *testing.T) {
	for _, test := range []struct {
		each, known int
		ofTrial     bool // P99 of one trial is known
	}{{6, 0, false}, {7, 1, false}, {33, 1, false}, {34, 2, false}, {67, 3, false}, {333, 3, false}, {334, 4, false}, {1000, 4, true}, {3334, 5, true}} {
		c := summarize(t, trialsOf(t, spread(test.each, 1), spread(test.each, 1.1), spread(test.each, 0.9))).Cells[0]
		known := 0
		for _, f := range []matrix.Figure{c.Service.P50, c.Service.P90, c.Service.P95, c.Service.P99, c.Service.P999, c.Service.P9999} {
			if !math.IsNaN(f.Value) {
				known++
			} else if f.Interval != nil {
				t.Errorf("%d requests per trial: what is not known has the interval %v", test.each, f.Interval)
			}
		}
		if known != test.known || math.IsNaN(c.P99OverP50.Value) != (known < 4) || math.IsNaN(*c.Repeats[0].P99) == test.ofTrial {
			t.Errorf("%d requests per trial: %d percentiles, want %d; P99/P50 %v, a trial's P99 %v", test.each, known, test.known, c.P99OverP50.Value, *c.Repeats[0].P99)
		}
		for _, p := range c.Curve {
			if beyond := (1 - p[0]) * float64(3*test.each); p[0] < 1 && beyond < 9.99 {
				t.Errorf("%d requests per trial: the curve is drawn at %v, with %.1f beyond", test.each, p[0], beyond)
			}
		}
	}
}

// A trial's own P99 is what variants are compared by, and needs as many.
func TestTooFewRequestsAreNotCompared(t *testing.T) {
	for requests, want := range map[int]int{999: 0, 1000: 1} {
		s := synthetic{seed: 1, noise: 0.01, repeats: 3, truths: []truth{
			{variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond, requests: requests},
			{variant: "grpc", bytes: 64, clients: 1, mean: 2 * time.Millisecond},
		}}.summarize(t)
		compared := 0
		for _, c := range s.Comparisons {
			if c.Metric == matrix.P99 {
				compared++
			}
		}
		if compared != want {
			t.Errorf("%d comparisons by P99 of %d and 1,000 requests per trial, want %d", compared, requests, want)
		}
	}
	few := saturating(0.03, 3, 1, 10, 25, 50, 100, 200)
	for i := range few.truths {
		few.truths[i].requests = 400
	}
	k := kneeBy(t, few.summarize(t), curves.KneeOfTail)
	if k.Found || !strings.Contains(k.Reason, "P99 also needs 1,000 requests per trial") {
		t.Errorf("400 requests per trial give %+v", k)
	}
}

func TestAStallOfAMinorityIsNamed(t *testing.T) {
	usual := func() [][]float64 {
		var trials [][]float64
		for i := range 10 {
			trials = append(trials, spread(2000, 1+float64(i)/100))
		}
		return trials
	}
	stall := func(us []float64) []float64 { return append(us, slices.Repeat([]float64{40_000}, 60)...) }

	one := usual()
	one[2] = stall(one[2])
	c := summarize(t, trialsOf(t, one...)).Cells[0]
	if len(c.Service.Stalls) != 2 || c.Service.Stalls[1].Percentile != "p999" {
		t.Fatalf("%+v", c.Service.Stalls)
	}
	s := c.Service.Stalls[0]
	if s.Percentile != "p99" || !slices.Equal(s.Repeats, []int{3}) || s.Trials != 10 || s.Longest != 40_000 || math.Abs(s.Without-2.1) > 0.1 {
		t.Errorf("%+v", s)
	}
	if c.Service.P99.Interval != nil || c.P99OverP50.Interval != nil || c.Service.P50.Interval == nil {
		t.Errorf("intervals of P99 %v, P99/P50 %v, P50 %v", c.Service.P99.Interval, c.P99OverP50.Interval, c.Service.P50.Interval)
	}
	want := "1 of 10 trials stalled for up to 40 ms (repeats: 3), so P99, P99.9 has no interval; P99 without these trials is 2.13 µs"
	if len(c.Findings) != 1 || c.Findings[0].Name != "stalls" || c.Findings[0].Trials != 1 || c.Findings[0].Detail != want {
		t.Errorf("%+v, want %q", c.Findings, want)
	}
	// What all do is how the service behaves, and what an invalid trial did does not count.
	all, invalid := usual(), trialsOf(t, one...)
	for i := range all {
		all[i] = stall(all[i])
	}
	invalid[2].Checks = []record.Check{{Name: "errors", Level: record.Invalid}}
	for name, records := range map[string][]*record.Record{"all": trialsOf(t, all...), "none": trialsOf(t, usual()...), "an invalid one": invalid} {
		c := summarize(t, records).Cells[0]
		if len(c.Service.Stalls) > 0 || c.Service.P99.Interval == nil || strings.Contains(fmt.Sprint(c.Findings), "stall") {
			t.Errorf("%s: %+v, %v, %v", name, c.Service.Stalls, c.Service.P99.Interval, c.Findings)
		}
	}
}
