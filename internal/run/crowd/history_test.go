package crowd

import (
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
)

// However long a worker runs, few intervals are kept, as long as one another, and nothing of
// them is lost.
func TestACourseStaysShort(t *testing.T) {
	times := latency.NewCoarseHistogram()
	times.Record(100_000, 3)
	encoded, err := times.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var c IntervalHistory
	const seconds = 10 * maxKeptIntervals // joined three times
	for at := range int64(seconds) {
		c.Add(worker.Interval{StartNS: at * 1e9, TookNS: 1e9, Ended: 3, Failed: 1, Histogram: encoded})
	}
	kept := c.All()
	if len(kept) > maxKeptIntervals || len(kept) < maxKeptIntervals/2 {
		t.Fatalf("%d intervals are kept", len(kept))
	}
	sum, all, end := worker.Interval{}, latency.NewCoarseHistogram(), int64(0)
	for i, one := range kept {
		if one.StartNS != end || i < len(kept)-1 && one.TookNS != kept[0].TookNS {
			t.Errorf("interval %d begins at %d and takes %d, after one that ends at %d", i, one.StartNS, one.TookNS, end)
		}
		end = one.StartNS + one.TookNS
		sum.Ended += one.Ended
		sum.Failed += one.Failed
		if err := all.AddEncoded(one.Histogram); err != nil {
			t.Fatal(err)
		}
	}
	if end != seconds*1e9 || sum.Ended != 3*seconds || sum.Failed != seconds || all.Count() != 3*seconds {
		t.Errorf("%d ns, %d ended, %d failed, %d in the histograms", end, sum.Ended, sum.Failed, all.Count())
	}
	if spoilt := joinIntervals(kept[0], worker.Interval{Histogram: "none"}); spoilt.Histogram != "none" {
		t.Errorf("a histogram that cannot be read became %q", spoilt.Histogram)
	}
}
