package load

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counter serves so many at a time, each for the same time: its capacity is
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
		found, err := Search(t.Context(), SearchPlan{
			Plan: Plan{Callers: callers(100, desk), Duration: time.Second, Drain: 5 * time.Second},
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
		within(t, "rate of the measurement", found.ratePerSecond(), found.Search.KeptPerSecond, 0.01)
	})
}

func (r *Result) ratePerSecond() float64 {
	return float64(r.Requests) / time.Duration(r.End-r.Begin).Seconds()
}

func TestSearchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Search(t.Context(), SearchPlan{
			Plan: Plan{Callers: callers(4, &server{delay: 20 * time.Millisecond}), Duration: 200 * time.Millisecond, Drain: 5 * time.Second},
			Goal: Goal{Quantile: 0.5, Limit: 10 * time.Millisecond},
		})
		if !errors.Is(err, ErrNoRate) || !strings.Contains(err.Error(), "above 10ms") {
			t.Errorf("a goal that no rate can keep: %v", err)
		}
	})
}

func TestWrongSearches(t *testing.T) {
	for name, p := range map[string]SearchPlan{
		"quantile":  {Plan: Plan{Duration: 1}, Goal: Goal{Quantile: 1, Limit: 1}},
		"a goal of": {Plan: Plan{Duration: 1}, Goal: Goal{Quantile: 0.5}},
		"duration":  {Goal: Goal{Quantile: 0.5, Limit: 1}},
		"precision": {Plan: Plan{Duration: 1}, Goal: Goal{Quantile: 0.5, Limit: 1}, Precision: 1},
	} {
		if _, err := Search(t.Context(), p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
