package lab

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// drawBlock returns the records of a block of two trials in random order. One takes twice as long. Their
// logarithms scatter by between, and those of their pairs of slices by within, as standard deviations.
func drawBlock(random *rand.Rand, block, rounds int, within, between float64, start time.Duration) []*record.Record {
	const slice, calls = 25 * time.Millisecond, 1000
	records := make([]*record.Record, 2)
	for place, i := range random.Perm(len(records)) {
		variant := []string{"a", "b"}[i]
		r := &record.Record{Block: block, Cell: record.Cell{Part: "p", Stack: "s", Variant: variant, Connection: variant}, WindowNS: int64(slice) * int64(rounds)}
		own := between*random.NormFloat64() + float64(i)*math.Ln2
		for round := range rounds {
			mean := 1e6 * math.Exp(own+math.Sqrt2*within*random.NormFloat64())
			r.Slices = append(r.Slices, record.Slice{
				AtNS: int64(2*round) * int64(slice), TookNS: int64(slice), Requests: calls, Completed: calls, SumNS: int64(calls * mean),
			})
		}
		r.TookNS = (int64(start) + 2*int64(slice)*int64(rounds)) / 2
		records[place] = r
	}
	return records
}

// Windows grow with the scatter of slices, shrink with the scatter of blocks, and have bounds.
func TestWindowsFollowFromTheScatter(t *testing.T) {
	const planned, start, blocks = 300 * time.Millisecond, 2 * time.Second, 2000
	window := func(within, between float64) time.Duration {
		random := rand.New(rand.NewPCG(1, 2))
		var s scatter
		for block := range blocks {
			s.learn(drawBlock(random, 1+block, 12, within, between, start))
		}
		if len(s) != blocks {
			t.Fatalf("learnt from %d blocks, want %d", len(s), blocks)
		}
		return s.nextWindow(pointOf(record.Cell{Part: "p"}), planned)
	}
	// √(2 s ÷ 0.1 s × (0.1 ÷ 0.04)²) = 11.2 pairs of 50 ms
	if got, want := window(0.1, 0.04), 559*time.Millisecond; math.Abs(float64(got-want)) > 0.1*float64(want) {
		t.Errorf("a window of %v, want %v", got, want)
	}
	if got := window(0.01, 0.1); got != planned {
		t.Errorf("quiet slices: a window of %v, want the planned %v", got, planned)
	}
	if got := window(0.3, 0); got != mostStretch*planned {
		t.Errorf("wild slices: a window of %v, want the longest", got)
	}
}

// A point's first blocks have the planned window, and blocks that show nothing are not learnt.
func TestFirstWindowsAreAsPlanned(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s scatter
	for block := range plannedWindows - 1 {
		s.learn(drawBlock(random, 1+block, 12, 0.3, 0, time.Second))
	}
	failed := drawBlock(random, 9, 12, 0.3, 0, time.Second)
	failed[1].Failure = "killed"
	s.learn(failed)
	s.learn(failed[:1])
	s.learn(nil)
	s.learn(drawBlock(random, 10, 2, 0.3, 0, time.Second)) // a single pair
	point := pointOf(record.Cell{Part: "p"})
	if got := s.nextWindow(point, time.Second); got != time.Second {
		t.Errorf("a window of %v after %d blocks", got, len(s))
	}
	s.learn(drawBlock(random, 11, 12, 0.3, 0, time.Second))
	if got := s.nextWindow(point, time.Second); got <= time.Second {
		t.Errorf("a window of %v after %d blocks", got, len(s))
	}
	if got := s.nextWindow(record.Cell{Part: "another"}, time.Second); got != time.Second {
		t.Errorf("another point has a window of %v", got)
	}
}

// A resumed run measures only the trials that a block lacks.
func TestBlocksMayDifferInTrials(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s scatter
	s.learn(append(drawBlock(random, 1, 12, 0.3, 0, time.Second), drawBlock(random, 1, 12, 0.3, 0, time.Second)...))
	for block := range plannedWindows {
		s.learn(drawBlock(random, 2+block, 12, 0.3, 0, time.Second))
	}
	if got := s.nextWindow(pointOf(record.Cell{Part: "p"}), time.Second); got <= time.Second || got > mostStretch*time.Second {
		t.Errorf("a window of %v", got)
	}
}
