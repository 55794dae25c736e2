package matrix

import (
	"math"
	"testing"

	"wirelab.dev/internal/data/record"
)

// spoiledPoint returns a point of three trials that a check makes invalid.
func spoiledPoint(t *testing.T, by record.Check) *Point {
	t.Helper()
	p := &Point{}
	for repeat := 1; repeat <= 3; repeat++ {
		inBlock(t, p, repeat, []float64{100, 110})
		r := p.Trials[repeat-1].Record
		cpu, faults := int64(1e6*repeat), int64(100*repeat)
		r.Client.UserNS, r.Client.SystemNS, r.Client.MinorFaults, r.Client.MajorFaults = &cpu, &cpu, &faults, new(int64)
		r.Server.UserNS, r.Server.SystemNS = &cpu, &cpu
		r.Wire = &record.Wire{Calls: 1, Request: record.WireBytes{MessageBytes: float64(100 + repeat)}}
		r.Checks = []record.Check{by}
	}
	return p
}

// A neighbour refuses times. What is counted has its figure, its interval and its comparison.
func TestAFigureIsRefusedAlone(t *testing.T) {
	by := record.Check{Name: "gaps", Level: record.Invalid, Detail: "other programs used 45 % of the CPUs", Spoils: []record.FigureKind{record.Times}}
	a, b := spoiledPoint(t, by), spoiledPoint(t, by)
	for metric, want := range map[string]int{Mean: 0, Throughput: 0, CPU: 3, "client-faults": 3, "request-bytes": 3, "answered": 3} {
		if pairs := CountPairs(a, b, Metrics[metric]); pairs != want {
			t.Errorf("%s: %d pairs, want %d", metric, pairs, want)
		}
	}
	c := a.summarize(nil, 1, newCellFits([]*Point{a, b}))
	if mean := c.ResponseTimes().Mean; c.Valid != 0 || c.Refused != 3 || math.IsNaN(mean.Value) || mean.Interval != nil || !c.RefusesTimes() {
		t.Errorf("%d valid, %d refused, the mean is %+v", c.Valid, c.Refused, mean)
	}
	if c.ClientCPU == nil || c.ClientCPU.Interval == nil || c.Wire == nil || c.Requests != 600 {
		t.Errorf("client CPU %+v, wire %+v, %d requests", c.ClientCPU, c.Wire, c.Requests)
	}
	if why := a.WhyRefused(Mean, 1); why != "refused, because other programs used 45 % of the CPUs" {
		t.Errorf("the mean is missing: %s", why)
	}
	if why := a.WhyRefused("server-futex", 1); why != "" {
		t.Errorf("the futex calls are refused: %s", why)
	}
}

// The times of a disturbed block can be compared, and are refused by themselves if most blocks were
// disturbed.
func TestABlockThatWasDisturbedIsComparedAlone(t *testing.T) {
	by := record.Check{Name: "gaps", Level: record.Invalid, Spoils: []record.FigureKind{record.AbsoluteTimes}}
	a, b := spoiledPoint(t, by), spoiledPoint(t, by)
	if pairs := CountPairs(a, b, Metrics[Mean]); pairs != 3 {
		t.Errorf("%d pairs, want 3", pairs)
	}
	c := a.summarize(nil, 1, newCellFits([]*Point{a, b}))
	if c.Valid != 3 || c.Disturbed != 3 || !c.RefusesTimes() || c.Service.Mean.Interval != nil || c.ClientCPU.Interval == nil {
		t.Errorf("%d valid, %d disturbed, the mean is %+v", c.Valid, c.Disturbed, c.Service.Mean)
	}
	for _, quiet := range a.Trials[:2] {
		quiet.Checks = nil
	}
	if c := a.summarize(nil, 1, newCellFits([]*Point{a, b})); c.RefusesTimes() || c.Service.Mean.Interval == nil {
		t.Errorf("one disturbed block of three: the mean is %+v", c.Service.Mean)
	}
}
