package gotrace

import (
	"fmt"
	"io"
	"math"
	"runtime/trace"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

// choose makes the calls of a turn, and returns which were chosen. idle is the number of calls since the
// last turn.
func choose(t *testing.T, s *Sampler, turn int64, idle, calls int) (chosen []int) {
	t.Helper()
	numbers := map[int]bool{}
	s.calls.Add(int64(idle))
	s.beginTurn(turn, turn*cycleNS, s.calls.Load())
	turnNow.Store(turn)
	defer turnNow.Store(0)
	for i := range calls {
		number, marked := s.Choose()
		switch {
		case !marked:
		case numbers[number] || number < 0 || number >= MaxInFlight:
			t.Fatalf("call %d has the number %d, which another call of the turn has, or which is out of range", i, number)
		default:
			numbers[number] = true
			chosen = append(chosen, i)
		}
	}
	return chosen
}

func startTrace(tb testing.TB) {
	tb.Helper()
	if err := trace.Start(io.Discard); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(trace.Stop)
}

// TestSample plants a pattern: every 100th call is another kind, as with a server that stalls regularly.
// The sample must have its share of them, and of each third of the turn.
func TestSample(t *testing.T) {
	startTrace(t)
	const calls, turns = 60_000, 20
	var s Sampler
	if first := choose(t, &s, 1000, 0, calls); len(first) != maxMarks || first[maxMarks-1] != maxMarks-1 {
		t.Errorf("before a rate is known, %d calls are chosen, want the first %d", len(first), maxMarks)
	}
	all, kinds, thirds := 0, 0, [3]int{}
	for turn := range int64(turns) {
		for _, i := range choose(t, &s, 1001+turn, calls/2, calls) {
			all++
			thirds[i*3/calls]++
			if i%100 == 0 {
				kinds++
			}
		}
	}
	// Six standard deviations.
	within := func(name string, got int, share float64) {
		want := wantedMarks * turns * share
		if math.Abs(float64(got)-want) > 6*math.Sqrt(want)+1 {
			t.Errorf("%s: %d calls are chosen, want about %.0f", name, got, want)
		}
	}
	within("all", all, 1)
	within("every 100th call", kinds, 0.01)
	for i, third := range thirds {
		within(fmt.Sprintf("third %d of the turn", i+1), third, 1./3)
	}
	if few := choose(t, &s, 1100, 0, 200); len(few) != 200 {
		t.Errorf("%d of 200 calls are chosen after a pause, want all", len(few))
	}
	if surge := choose(t, &s, 1101, 0, 40*calls); len(surge) != maxMarks {
		t.Errorf("%d calls of a surge are chosen, want %d", len(surge), maxMarks)
	}
}

// TestOtherCallsCostNothing: a call without a mark allocates nothing, in a turn or outside.
func TestOtherCallsCostNothing(t *testing.T) {
	startTrace(t)
	var s Sampler
	choose(t, &s, 1000, 0, 2*maxMarks) // the turn has no more marks to give
	untraced := testing.AllocsPerRun(1000, func() { s.Choose() })
	turnNow.Store(1000)
	defer turnNow.Store(0)
	if traced := testing.AllocsPerRun(1000, func() { s.Choose() }); untraced != 0 || traced != 0 {
		t.Errorf("%v allocations without a trace, %v with one, want none", untraced, traced)
	}
}

// TestShares: turns with different chances of a mark give calls in the same proportion as without marks.
func TestShares(t *testing.T) {
	turns := make([]*turn, 2)
	for i, chance := range []float64{0.5, 0.125} {
		one := newTimeline(map[int64][]step{})
		one.chance = chance
		for range int(8000 * chance) { // each turn has 8,000 calls
			one.regions = append(one.regions, region{CallRegion + "1", 1, 100, 200})
		}
		turns[i] = &turn{client: one, server: newTimeline(nil)}
	}
	for i, share := range sharesOf(turns) {
		life := &record.Life{}
		turns[i].divide(probe.Span{BeginNS: 0, EndNS: 1000}, share, life)
		if got := life.Untold; got != 1000 {
			t.Errorf("of the calls with a chance of %v, %d are divided, want 1,000", turns[i].client.chance, got)
		}
	}
	turns[0].client.chance, turns[1].client.chance = 1, 1
	turns[0].client.regions = append(turns[0].client.regions, make([]region, 7000)...)
	if shares := sharesOf(turns); shares[0] != shares[1] || math.Abs(shares[0]*12_000-maxCalls) > 1 {
		t.Errorf("the shares of 12,000 calls are %v, want those of %d calls", shares, maxCalls)
	}
}
