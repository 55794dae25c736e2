package crowd

import (
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

func TestStream(t *testing.T) {
	m := NewIntervalStream()
	if m.recentCalls() != nil {
		t.Error("there is a look at nothing")
	}
	second := func(start, ns int64, ended int) worker.Interval {
		times := latency.NewCoarseHistogram()
		times.Record(ns, int64(ended))
		encoded, err := times.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return worker.Interval{StartNS: start, TookNS: 1e9, Ended: int64(ended), Failed: 1, Histogram: encoded}
	}
	for at := range int64(40) {
		m.Add(second(at*1e9, 100_000, 60))
		m.Add(second(at*1e9+40_000, 4_000_000, 40)) // another's clock is a little off
	}
	m.Add(second(0, 1e9, 1000)) // far too late
	m.Add(worker.Interval{StartNS: 39e9, TookNS: 1e9, Histogram: "no histogram"})
	live := m.recentCalls()
	if live == nil || live.SpanNS != 2e9 || live.Ended != 200 || live.Failed != 4 {
		t.Fatalf("%+v, want the two seconds before the last", live)
	}
	if live.P50NS < 99_000 || live.P50NS > 101_000 || live.P90NS < 3_960_000 || live.P90NS > 4_040_000 {
		t.Errorf("P50 %d, P90 %d, want 0.1 and 4 ms", live.P50NS, live.P90NS)
	}
	if len(m.slots) > maxSlots {
		t.Errorf("%d stretches are kept", len(m.slots))
	}
}

// A group rests when all of its clients do. Its mean time is the longest.
func TestAGroupRestsWhenAllDo(t *testing.T) {
	w := NewTracker(2, 0)
	w.Report(0, live.Progress{Settled: true, Paused: true, MeanNS: 5})
	if one := w.sumProgress(1); one.Paused || one.Settled {
		t.Errorf("one of two rests: %+v", one)
	}
	w.Report(1, live.Progress{Settled: true, Paused: true, MeanNS: 3})
	if both := w.sumProgress(1); !both.Paused || !both.Settled || both.MeanNS != 5 || !both.Warming {
		t.Errorf("both rest: %+v", both)
	}
	w.SetOpening(10)
	w.Report(1, live.Progress{Fraction: 0.5})
	if p := w.sumProgress(1e9); p.Warming || p.Fraction != 0.25 {
		t.Errorf("in the slices: %+v", p)
	}
}
