package load

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

// whole is a share of everything.
var whole = arrivalShare{clients: 1, of: 1}

func instants(s *schedule) []int64 {
	all := make([]int64, s.count)
	for i := range all {
		all[i] = s.instantOf(int64(i), &windowBounds{begin: futureInstant, end: futureInstant})
	}
	return all
}

// However a group is split, its parts have the arrivals of the whole, each once.
func TestPartsOfAScheduleAreTheWhole(t *testing.T) {
	const length = 3 * time.Second
	for name, a := range map[string]Arrivals{
		"constant":     {RatePerSecond: 997},
		"poisson":      {RatePerSecond: 997, Poisson: true, Seed: 5},
		"ramp":         {Stages: []record.Stage{{Length: time.Second, From: 100, To: 900}}},
		"poisson ramp": {Stages: []record.Stage{{Length: time.Second, From: 900, To: 100}}, Poisson: true, Seed: 6},
		"spread":       {RatePerSecond: 997, Spread: true},
		"burst":        {Burst: 103},
		"small burst":  {Burst: 2},
		"slow":         {RatePerSecond: 0.1},
	} {
		one, err := newSchedule(a, length, arrivalShare{clients: 7, of: 7})
		if err != nil {
			t.Fatal(err)
		}
		want := instants(one)
		for _, split := range [][]int64{{7}, {1, 6}, {3, 4}, {2, 3, 2}, {1, 1, 1, 1, 1, 1, 1}} {
			var got []int64
			first := int64(0)
			for _, clients := range split {
				part, err := newSchedule(a, length, arrivalShare{first: first, clients: clients, of: 7})
				if err != nil {
					t.Fatal(err)
				}
				if int64(cap(part.offsets)) > part.count*2+100 {
					t.Errorf("%s: memory for %d arrivals of %d own ones", name, cap(part.offsets), part.count)
				}
				own := instants(part)
				if !slices.IsSorted(own) {
					t.Errorf("%s: %d clients from %d have arrivals out of order", name, clients, first)
				}
				if a.RatePerSecond > 1 && len(own) == 0 {
					t.Errorf("%s: %d clients from %d have no arrivals", name, clients, first)
				}
				got, first = append(got, own...), first+clients
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: split %v, the parts have %d arrivals, the whole has %d", name, split, len(got), len(want))
			}
		}
	}
}

// In any stretch of time, each part of a spread schedule has its share of the arrivals.
func TestPartsOfASpreadScheduleTakeTurns(t *testing.T) {
	for _, of := range []int64{2, 3, 30, 150, 1000, 4096, 100_000} {
		for _, clients := range []int64{1, of / 3, of / 2, of - 1} {
			if clients < 1 {
				continue
			}
			part, err := newSchedule(Arrivals{RatePerSecond: 1000, Spread: true}, 10*time.Second, arrivalShare{first: of - clients, clients: clients, of: of})
			if err != nil {
				t.Fatal(err)
			}
			for i, at := range instants(part) {
				if due := float64(at) / 1e6 * float64(clients) / float64(of); math.Abs(float64(i)-due) > 4 {
					t.Fatalf("%d of %d clients: arrival %d comes when %.1f are due", clients, of, i, due)
				}
			}
		}
	}
}

// A group begins when it is told to, and opens its window when it is told to.
func TestAGroupObeysItsCues(t *testing.T) {
	for name, plan := range map[string]Plan{
		"closed":  {},
		"open":    {Open: &Arrivals{RatePerSecond: 1000, Poisson: true, Seed: 3}},
		"regular": {Open: &Arrivals{RatePerSecond: 1000}},
	} {
		synctest.Test(t, func(t *testing.T) {
			controls := &Controls{}
			began := clock.Now()
			first := &firstCall{}
			settledAfter := time.Duration(0)
			plan.Callers, plan.Group = callers(3, first), &Group{First: 2, Of: 10}
			plan.Duration, plan.WarmUp = time.Second, WarmUp{AtMost: 300 * time.Millisecond}
			plan.Controls, plan.Begins, plan.Opens = controls, OnGoControl, OnOpenControl
			reports := 0
			plan.Report = func(p live.Progress) {
				reports++
				if p.Settled && settledAfter == 0 {
					settledAfter = time.Duration(clock.Now() - began)
				}
				if !p.Warming && p.Settled {
					t.Errorf("%s: it is settled in its window", name)
				}
			}
			after(t, 2*time.Second, func() { controls.Go(began + int64(3*time.Second)) })
			after(t, 10*time.Second, func() { controls.Open(began + int64(12*time.Second)) })
			r := mustRun(t, plan)
			if at := first.at.Load() - began; at < int64(3*time.Second) || plan.Open == nil && at > int64(3*time.Second) {
				t.Errorf("%s: the first call went out after %v, want 3 s", name, time.Duration(at))
			}
			if at := r.Begin - began; at != int64(12*time.Second) {
				t.Errorf("%s: the window opened after %v, want 12 s", name, time.Duration(at))
			}
			if settledAfter < 3*time.Second || settledAfter > 3400*time.Millisecond {
				t.Errorf("%s: it said that it is settled after %v, want within 300 ms of 3 s", name, settledAfter)
			}
			if reports < 12*4 {
				t.Errorf("%s: %d reports in 13 s, want some each second", name, reports)
			}
			if plan.Open != nil {
				within(t, name+": requests", float64(r.Requests), 300, 0.3)
			}
		})
	}
}

// firstCall notes when its first call was made.
type firstCall struct{ at atomic.Int64 }

func (f *firstCall) Call(context.Context) error {
	f.at.CompareAndSwap(0, clock.Now())
	time.Sleep(time.Millisecond)
	return nil
}

// Without a warm-up the window opens at the instant of go, and instants that are over mean
// as soon as it can be.
func TestCuesThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		for name, ago := range map[string]time.Duration{"to come": -3 * time.Second, "just over": time.Second, "of another clock": time.Hour} {
			now := clock.Now()
			controls := &Controls{}
			controls.Go(now - int64(ago))
			r := mustRun(t, Plan{
				Callers: callers(2, &server{delay: time.Millisecond}), Group: &Group{Of: 4}, Controls: controls, Begins: OnGoControl,
				Duration: 5 * time.Second, Drain: time.Second, Open: &Arrivals{RatePerSecond: 100},
			})
			want := now - int64(ago)
			if ago > maxCueAge {
				want = now
			}
			if r.Begin != want {
				t.Errorf("%s: the window opened %v from then", name, time.Duration(r.Begin-want))
			}
			if r.Requests != 250 {
				t.Errorf("%s: %d of a group's 500 requests, want half", name, r.Requests)
			}
		}
		controls := &Controls{}
		controls.Go(math.MinInt64)
		controls.Open(math.MinInt64)
		began := clock.Now()
		r := mustRun(t, Plan{
			Callers: callers(2, &server{delay: time.Millisecond}), Group: &Group{Of: 2}, Controls: controls, Begins: OnGoControl, Opens: OnOpenControl,
			Requests: 10, WarmUp: WarmUp{AtLeast: time.Second, AtMost: time.Second},
		})
		if warm := time.Duration(r.Begin - began); warm < time.Second || warm > 1020*time.Millisecond {
			t.Errorf("told long ago to open its window, it did so after %v, want the warm-up of a second", warm)
		}
	})
}

func TestExtraRequestsOfAGroup(t *testing.T) {
	for first, want := range map[int]int64{0: 3*10 + 3, 3: 3*10 + 1, 6: 3 * 10} {
		r := mustRun(t, Plan{Callers: callers(3, emptyCaller{}), Requests: 10, Extra: 4, Group: &Group{First: first, Of: 9}})
		if r.Requests != want {
			t.Errorf("clients from %d on: %d requests, want %d", first, r.Requests, want)
		}
	}
}

// A client of a group may have no arrival.
func TestAPartWithoutArrivals(t *testing.T) {
	r := mustRun(t, Plan{
		Callers: callers(2, emptyCaller{}), Duration: time.Minute, Drain: time.Second, Open: &Arrivals{Burst: 2}, Group: &Group{First: 2, Of: 4},
	})
	if r.Requests != 0 || r.Encode() != nil || r.Pacing.Scheduled != 0 {
		t.Errorf("%d requests of %d, want none", r.Requests, r.Pacing.Scheduled)
	}
}

func TestCuesThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := Plan{
			Callers: callers(1, &server{delay: 100 * time.Millisecond}), Duration: time.Second, WarmUp: WarmUp{AtMost: time.Second},
			Controls: &Controls{}, Begins: OnGoControl, Opens: OnOpenControl,
		}
		plan.Controls.Go(math.MinInt64)
		began := time.Now()
		_, err := Run(t.Context(), plan)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "open") || took < time.Minute || took > 62*time.Second {
			t.Errorf("without the control to open its window: %v after %v, want an error after a minute and a second", err, took)
		}
		plan.Controls = &Controls{}
		after(t, 2*time.Minute, plan.Controls.End)
		if _, err := Run(t.Context(), plan); !errors.Is(err, ErrNothingMeasured) {
			t.Errorf("told to end in place of to go: %v", err)
		}
		plan.Controls = &Controls{}
		ctx, cancel := context.WithCancel(t.Context())
		after(t, 2*time.Minute, cancel)
		if _, err := Run(ctx, plan); !errors.Is(err, context.Canceled) {
			t.Errorf("no longer wanted in place of told to go: %v", err)
		}
	})
}

func TestGroupsThatCannotBe(t *testing.T) {
	for name, plan := range map[string]Plan{
		"beyond the group":  {Group: &Group{First: 3, Of: 4}},
		"from below":        {Group: &Group{First: -1, Of: 4}},
		"nobody to tell it": {Begins: OnGoControl},
	} {
		plan.Callers, plan.Requests = callers(2, emptyCaller{}), 1
		if _, err := Run(t.Context(), plan); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
