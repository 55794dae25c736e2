package load

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
)

// alternate returns the slices of loads that take turns: each sends for length, and its first calls
// are not measured for runIn.
func alternate(begin int64, loads, rounds int, runIn, length time.Duration) [][]Slice {
	all := make([][]Slice, loads)
	for range rounds {
		for i := range all {
			all[i] = append(all[i], Slice{Send: begin, From: begin + int64(runIn), To: begin + int64(length)})
			begin += int64(length + time.Millisecond)
		}
	}
	return all
}

// Loads that take turns measure what each would measure alone, and never send at the same time.
func TestLoadsTakeTurns(t *testing.T) {
	const clients, rounds, runIn, length = 4, 20, 5 * time.Millisecond, 30 * time.Millisecond
	for name, open := range map[string]*Arrivals{"closed loop": nil, "open loop": {RatePerSecond: 1000}} {
		synctest.Test(t, func(t *testing.T) {
			delays := []time.Duration{time.Millisecond, 2 * time.Millisecond}
			results, controls := make([]*Result, len(delays)), make([]*Controls, len(delays))
			var running sync.WaitGroup
			for i, delay := range delays {
				controls[i] = &Controls{}
				running.Go(func() {
					var err error
					results[i], err = Run(t.Context(), Plan{
						Callers: callers(clients, &server{delay: delay}), Open: open, Controls: controls[i], Opens: OnSlices, KeepSamples: true,
						Duration: rounds * (length - runIn), WarmUp: WarmUp{AtLeast: 50 * time.Millisecond, AtMost: 100 * time.Millisecond},
					})
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			time.Sleep(time.Second)
			turns := alternate(clock.Now()+int64(100*time.Millisecond), len(delays), rounds, runIn, length)
			end := turns[1][rounds-1].To
			for i, c := range controls {
				c.TakeTurns(turns[i], end)
			}
			running.Wait()
			if now := clock.Now(); now < end {
				t.Errorf("%s: a load ended %v before the last slice", name, time.Duration(end-now))
			}
			for i, r := range results {
				if r == nil {
					continue
				}
				want := float64(rounds) * (length - runIn).Seconds() * clients / delays[i].Seconds()
				if open != nil {
					want = rounds * (length - runIn).Seconds() * 1000
				}
				within(t, name+": requests", float64(r.Requests), want, 0.05)
				within(t, name+": completed", float64(r.Completed), want, 0.06)
				if open == nil {
					within(t, name+": in flight", r.InFlight, clients, 0.01)
				}
				if r.Pauses != 0 || r.End-r.Begin-r.PausedNS != int64(rounds*(length-runIn)) {
					t.Errorf("%s: %d pauses, %v measured", name, r.Pauses, time.Duration(r.End-r.Begin-r.PausedNS))
				}
				if r.service.Max() != delays[i] {
					t.Errorf("%s: the slowest call took %v, want %v", name, r.service.Max(), delays[i])
				}
				var requests, completed, sum int64
				for n, s := range r.Slices {
					turn := turns[i][n]
					if s.AtNS != turn.From-r.Begin || s.TookNS != turn.To-turn.From {
						t.Errorf("%s: slice %d is at %v for %v", name, n, time.Duration(s.AtNS), time.Duration(s.TookNS))
					}
					requests, completed, sum = requests+s.Requests, completed+s.Completed, sum+s.SumNS
				}
				if len(r.Slices) != rounds || requests != r.Requests || completed != r.Completed {
					t.Errorf("%s: %d slices with %d requests, %d completed; want %d with %d, %d", name, len(r.Slices), requests, completed, rounds, r.Requests, r.Completed)
				}
				within(t, name+": mean", float64(sum)/float64(requests), float64(delays[i]), 0.01)
				if open == nil && r.EndedBetween < clients*rounds/2 {
					t.Errorf("%s: %d calls ended between slices", name, r.EndedBetween)
				}
				// The cost of all calls of the turns is counted, and no other call's.
				made := float64(rounds) * length.Seconds() * clients / delays[i].Seconds()
				if open != nil {
					made = want // nothing arrives before a slice
				}
				within(t, name+": calls of all turns", float64(r.Completed+r.EndedBetween), made, 0.05)
				if open == nil && r.Completed+r.EndedBetween < int64(made) {
					t.Errorf("%s: %d calls of all turns, want at least %v", name, r.Completed+r.EndedBetween, made)
				}
				if first, last := turns[i][0].Send, turns[i][rounds-1].To; r.Begin-r.CostBefore != first-int64(RestAround) || r.End+r.CostAfter != last+int64(RestAround) {
					t.Errorf("%s: cost from %v before the window to %v after it", name, time.Duration(r.CostBefore), time.Duration(r.CostAfter))
				}
				if begin, end := controls[i].CostSpan(); begin != r.Begin-r.CostBefore || end != r.End+r.CostAfter {
					t.Errorf("%s: the load's controls give other instants than its result", name)
				}
				r.Close()
			}
		})
	}
}

// The course holds the calls that ended in the slices, also those that began in the run-in: a window of slow
// calls must not look as if it began slowly.
func TestTheCourseOfASliceBeginsWithItsRunIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callTime = 100 * time.Millisecond
		controls := &Controls{}
		after(t, time.Second, func() {
			turns := alternate(clock.Now()+int64(100*time.Millisecond), 1, 1, 2*callTime+callTime/2, 8*callTime+callTime/5)
			controls.TakeTurns(turns[0], turns[0][0].To)
		})
		r, err := Run(t.Context(), Plan{
			Callers: callers(8, &server{delay: callTime}), Controls: controls, Opens: OnSlices, Duration: time.Second,
			WarmUp: WarmUp{AtLeast: 50 * time.Millisecond, AtMost: 100 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var first, all int64
		for _, i := range r.Intervals {
			if i.StartNS >= 0 && i.StartNS < int64(callTime) {
				first += i.Requests
			}
			if i.StartNS >= 0 && i.StartNS+i.TookNS <= r.Slices[0].TookNS {
				all += i.Requests
			}
		}
		if first != 8 || all != r.Completed {
			t.Errorf("%d calls in the first %v, want 8; %d in all, want %d", first, callTime, all, r.Completed)
		}
	})
}

// The parts of a group that take turns keep up the load until their cue, rest from the same instant on, and
// together send in the slices what one load sends.
func TestAGroupRestsOnItsCue(t *testing.T) {
	for name, open := range map[string]*Arrivals{"closed loop": nil, "open loop": {RatePerSecond: 1000}} {
		synctest.Test(t, func(t *testing.T) {
			began := clock.Now()
			rest := began + int64(5*time.Second)
			turns := alternate(began+int64(8*time.Second), 1, 10, 5*time.Millisecond, 30*time.Millisecond)[0]
			results := make([]*Result, 2)
			var running sync.WaitGroup
			for i, settles := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
				controls, one := &Controls{}, &server{delay: time.Millisecond}
				controls.Go(began)
				var settled, atRest atomic.Int64
				after(t, 4*time.Second, func() { settled.Store(one.calls.Load()); controls.Open(rest) })
				after(t, 5500*time.Millisecond, func() { atRest.Store(one.calls.Load()) })
				after(t, 7*time.Second, func() {
					if n := one.calls.Load(); n != atRest.Load() || n <= settled.Load() || settled.Load() == 0 {
						t.Errorf("%s: %d calls before the cue, %d at rest, %d later", name, settled.Load(), atRest.Load(), n)
					}
					controls.TakeTurns(turns, turns[9].To)
				})
				running.Go(func() {
					var err error
					results[i], err = Run(t.Context(), Plan{
						Callers: callers(2, one), Group: &Group{First: 2 * i, Of: 4}, Open: open, Controls: controls, Begins: OnGoControl, Opens: OnSlices,
						Duration: 250 * time.Millisecond, WarmUp: WarmUp{AtLeast: settles, AtMost: settles},
						Report: func(p live.Progress) {
							if now := clock.Now(); p.Warming && p.Settled && p.Paused && now < rest {
								t.Errorf("%s: it rests %v before its cue", name, time.Duration(rest-now))
							}
						},
					})
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			running.Wait()
			var requests int64
			for i, r := range results {
				if r == nil || r.Begin != turns[0].From || len(r.Slices) != len(turns) {
					t.Fatalf("%s: part %d has %+v", name, i, r)
				}
				requests += r.Requests
				r.Close()
			}
			if open != nil && requests != 250 {
				t.Errorf("%s: %d requests, want the 250 of the rate", name, requests)
			}
		})
	}
}

// A load that never gets its slices, or gets impossible ones, or gets them too late, says so.
func TestSlicesAreRefused(t *testing.T) {
	soon := func(at ...time.Duration) Slice {
		now := clock.Now()
		return Slice{now + int64(at[0]), now + int64(at[1]), now + int64(at[2])}
	}
	for name, give := range map[string]func(*Controls){
		"none":         func(c *Controls) { c.TakeTurns(nil, 0) },
		"never":        func(*Controls) {},
		"ended":        func(c *Controls) { c.End() },
		"over":         func(c *Controls) { c.TakeTurns([]Slice{soon(-3, -2, -1)}, 0) },
		"too many":     func(c *Controls) { c.TakeTurns(make([]Slice, MostSlices+1), 0) },
		"backwards":    func(c *Controls) { c.TakeTurns([]Slice{soon(1e9, 2e9, 1e9)}, 0) },
		"out of order": func(c *Controls) { c.TakeTurns([]Slice{soon(1e9, 1e9, 3e9), soon(2e9, 2e9, 4e9)}, 0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			controls := &Controls{}
			after(t, time.Second, func() { give(controls) })
			_, err := Run(t.Context(), Plan{
				Callers: callers(2, &server{delay: time.Millisecond}), Controls: controls, Opens: OnSlices, Duration: time.Second,
				WarmUp: WarmUp{AtLeast: 50 * time.Millisecond, AtMost: 100 * time.Millisecond},
			})
			if err == nil || errors.Is(err, ErrNothingMeasured) != (name == "ended") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
