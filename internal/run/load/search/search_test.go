package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// noisySearch searches a server that bears another rate in each try, around its
// capacity. It takes no time, and returns how often each rate passed too.
func noisySearch(t *testing.T, random *rand.Rand, capacity, noise float64) (*searcher, map[float64]int) {
	t.Helper()
	passed := map[float64]int{}
	s := &searcher{plan: Plan{Plan: load.Plan{Duration: time.Second}, Goal: Goal{Quantile: 0.99, Limit: time.Millisecond}}}
	s.try = func(_ context.Context, rate float64) (*load.Result, record.Step, error) {
		r, step := &load.Result{}, record.Step{RatePerSecond: rate, Kept: rate < capacity*math.Exp(noise*random.NormFloat64())}
		r.Requests = int64(rate)
		if step.Kept {
			passed[rate]++
		}
		return r, step, nil
	}
	if err := s.searchBelow(t.Context(), capacity*math.Exp(0.15*random.NormFloat64())); err != nil {
		t.Fatal(err)
	}
	return s, passed
}

// The measurement is one of the rate that is printed, and that rate won its vote: of 30
// searches the review of the first version found 24 to hold that of a rate which lost
// it, up to 32 % too high.
func TestSearchReturnsARateThatWonItsVote(t *testing.T) {
	for _, noise := range []float64{0.02, 0.05, 0.1} {
		random := rand.New(rand.NewPCG(11, math.Float64bits(noise)))
		for range 30 {
			s, passed := noisySearch(t, random, 100_000, noise)
			if kept := s.found.KeptPerSecond; passed[kept] < 2 || s.best.Requests != int64(kept) {
				t.Errorf("noise %v: %v passed %d times; the measurement has %d requests", noise, kept, passed[kept], s.best.Requests)
			}
		}
	}
}

// What the record says of one search holds the rate that half of the tries bear. The
// rates kept and missed, 1 % apart, hold it in 27, 11 and 6 of 100.
func TestTheThresholdOfASearchIsHeld(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates hundreds of searches; the full tests do")
	}
	const searches = 400
	for _, noise := range []float64{0.02, 0.05, 0.1} {
		random := rand.New(rand.NewPCG(12, math.Float64bits(noise)))
		held, steps, off := 0, 0, 0.0
		var widths []float64
		for range searches {
			s, _ := noisySearch(t, random, 100_000, noise)
			found, err := stats.FindThreshold(stepOutcomes(s.found.Steps), 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if found.Contains(100_000) {
				held++
			}
			steps += len(s.found.Steps)
			off += math.Log(found.Estimate / 100_000)
			widths = append(widths, found.High/found.Low-1)
		}
		share := float64(held) / searches
		t.Logf("noise %2.0f %%: held in %.1f %%, %.1f %% wide in the median, off by %+.1f %% in the mean, %.0f steps",
			100*noise, 100*share, 100*stats.Median(widths), 100*off/searches, float64(steps)/searches)
		if share < 0.93 || share > 0.975 {
			t.Errorf("noise %v: the interval holds the threshold in %.3f of the searches", noise, share)
		}
	}
}

// A step lasts until ten requests lie beyond the goal's percentile, within bounds; what
// cannot be judged so is refused with what to write instead.
func TestAStepHasEnoughRequestsForItsPercentile(t *testing.T) {
	plan := func(clients int, quantile float64) Plan {
		desk := &counter{free: make([]time.Time, clients), takes: 10 * time.Millisecond}
		return Plan{
			Plan: load.Plan{Callers: callers(clients, desk), Duration: time.Second, Drain: 5 * time.Second},
			Goal: Goal{Quantile: quantile, Limit: 50 * time.Millisecond},
		}
	}
	synctest.Test(t, func(t *testing.T) {
		found, err := Run(t.Context(), plan(2, 0.99)) // 200 a second: 5 s for 1,000
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		for _, step := range found.Search.Steps {
			if step.Requests < 1000 && !strings.Contains(step.Why, "never sent") {
				t.Errorf("P99 of %d requests at %v a second judged a step: %+v", step.Requests, step.RatePerSecond, step)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, err := Run(t.Context(), plan(2, 0.999))
		if err == nil || !strings.Contains(err.Error(), "P99.9, a step needs 10000 requests") || !strings.Contains(err.Error(), "set a duration of 6.2") {
			t.Errorf("P99.9 at 160 a second in steps of a second: %v", err)
		}
	})
}

// A goal of 150 ms is kept for a second by a seventh too much: the backlog tells.
func TestAStepBeyondCapacityIsMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a search of 200 clients, seconds of CPU time; the full tests do")
	}
	synctest.Test(t, func(t *testing.T) {
		desk := &counter{free: make([]time.Time, 1), takes: time.Millisecond}
		found, err := Run(t.Context(), Plan{
			Plan: load.Plan{Callers: callers(200, desk), Duration: time.Second, Drain: 5 * time.Second},
			Goal: Goal{Quantile: 0.99, Limit: 150 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		within(t, "capacity", found.Search.KeptPerSecond, 1000, 0.02)
		missed := slices.IndexFunc(found.Search.Steps, func(s record.Step) bool { return strings.HasPrefix(s.Why, "beyond capacity") })
		if missed < 0 {
			t.Errorf("no step was beyond capacity: %+v", found.Search.Steps)
		}
	})
}

// A step of a few intervals does not tell how its rate varies. Its backlog still ends a
// search with a limit that no response time comes near.
func TestAShortStepBeyondCapacityIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := &counter{free: make([]time.Time, 1), takes: time.Millisecond}
		found, err := Run(t.Context(), Plan{
			Plan: load.Plan{Callers: callers(4, desk), Duration: 20 * time.Millisecond, Drain: 5 * time.Second},
			Goal: Goal{Quantile: 0.5, Limit: 1000 * time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		within(t, "capacity", found.Search.KeptPerSecond, 1000, 0.5)
	})
}

// A counter serves a fixed number of calls at a time, each for the same time, so its capacity is
// known exactly.
type counter struct {
	mu    sync.Mutex
	free  []time.Time
	takes time.Duration
}

func (c *counter) Call(context.Context) error {
	c.mu.Lock()
	next := 0
	for i, at := range c.free {
		if at.Before(c.free[next]) {
			next = i
		}
	}
	begin := time.Now()
	if c.free[next].After(begin) {
		begin = c.free[next]
	}
	end := begin.Add(c.takes)
	c.free[next] = end
	c.mu.Unlock()
	time.Sleep(time.Until(end))
	return nil
}

func TestSearchFindsTheCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := &counter{free: make([]time.Time, 4), takes: time.Millisecond}
		found, err := Run(t.Context(), Plan{
			Plan: load.Plan{Callers: callers(100, desk), Duration: time.Second, Drain: 5 * time.Second},
			Goal: Goal{Quantile: 0.99, Limit: 5 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		within(t, "capacity", (found.Search.KeptPerSecond+found.Search.MissedPerSecond)/2, 4000, 0.01)
		if found.Search.MissedPerSecond/found.Search.KeptPerSecond > 1.0101 || found.Search.Why != "" {
			t.Errorf("between %v and %v: %s", found.Search.KeptPerSecond, found.Search.MissedPerSecond, found.Search.Why)
		}
		within(t, "rate of the measurement", ratePerSecond(found), found.Search.KeptPerSecond, 0.01)
	})
}

func ratePerSecond(r *load.Result) float64 {
	return float64(r.Requests) / time.Duration(r.End-r.Begin).Seconds()
}

func TestSearchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Run(t.Context(), Plan{
			Plan: load.Plan{Callers: callers(4, sleeper(20*time.Millisecond)), Duration: 200 * time.Millisecond, Drain: 5 * time.Second},
			Goal: Goal{Quantile: 0.5, Limit: 10 * time.Millisecond},
		})
		if !errors.Is(err, ErrNoRate) || !strings.Contains(err.Error(), "above 10ms") {
			t.Errorf("a goal that no rate can keep: %v", err)
		}
	})
}

func TestWrongSearches(t *testing.T) {
	for name, p := range map[string]Plan{
		"quantile":       {Plan: load.Plan{Duration: 1}, Goal: Goal{Quantile: 1, Limit: 1}},
		"the time limit": {Plan: load.Plan{Duration: 1}, Goal: Goal{Quantile: 0.5}},
		"duration":       {Goal: Goal{Quantile: 0.5, Limit: 1}},
	} {
		if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A search that is told to end keeps what it found, if that is a rate kept and one missed.
func TestASearchEndsEarly(t *testing.T) {
	for tries, found := range map[int]bool{0: false, 2: false, 4: true} {
		s := &searcher{plan: Plan{Plan: load.Plan{Duration: time.Second}, Goal: Goal{Quantile: 0.99, Limit: time.Millisecond}}}
		s.try = func(_ context.Context, rate float64) (*load.Result, record.Step, error) {
			if len(s.found.Steps) == tries {
				return nil, record.Step{}, load.ErrNothingMeasured
			}
			return &load.Result{}, record.Step{RatePerSecond: rate, Kept: rate < 900}, nil
		}
		r, err := s.finish(s.searchBelow(t.Context(), 1000)) // tries 800, and then 1000
		switch {
		case !found && !errors.Is(err, load.ErrNothingMeasured):
			t.Errorf("after %d tries: got %v, want %v", tries, err, load.ErrNothingMeasured)
		case found && (err != nil || !r.EndedEarly || r.Search.KeptPerSecond != 800 || r.Search.MissedPerSecond != 1000 || r.Search.Why == ""):
			t.Errorf("after %d tries: %v, %+v", tries, err, r)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		controls := &load.Controls{}
		time.AfterFunc(3*time.Second, controls.End)
		_, err := Run(t.Context(), Plan{
			Plan: load.Plan{Callers: callers(10, sleeper(time.Millisecond)), Duration: time.Hour, Drain: time.Second, Controls: controls},
			Goal: Goal{Quantile: 0.99, Limit: time.Second},
		})
		if !errors.Is(err, load.ErrNothingMeasured) {
			t.Errorf("a search told to end in its first step: got %v, want %v", err, load.ErrNothingMeasured)
		}
	})
}

// A sleeper is a server whose calls take that long.
type sleeper time.Duration

func (s sleeper) Call(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(s)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func callers(n int, c load.Caller) []load.Caller { return slices.Repeat([]load.Caller{c}, n) }

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s: %v, want %v within %v %%", what, got, want, 100*tolerance)
	}
}
