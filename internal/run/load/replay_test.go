package load

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
)

// journalist writes its calls down as a client in another language would.
type journalist struct {
	own    uint32
	server *server
	guard  *sync.Mutex
	calls  *[]JournalCall
}

func (j journalist) Call(ctx context.Context) error {
	sent := clock.Now()
	err := j.server.Call(ctx)
	call := JournalCall{Due: sent, Sent: sent, Ended: clock.Now(), Caller: j.own}
	if err != nil {
		call.Failure = 1
	}
	j.guard.Lock()
	*j.calls = append(*j.calls, call)
	j.guard.Unlock()
	return err
}

// What Run measured of its callers, Replay works out of the calls that they wrote down.
func TestReplayAgreesWithRun(t *testing.T) {
	warm := WarmUp{AtLeast: 40 * time.Millisecond, AtMost: 40 * time.Millisecond}
	for name, p := range map[string]Plan{
		"a duration":               {Duration: 200 * time.Millisecond, WarmUp: warm},
		"requests":                 {Requests: 70, Extra: 2, WarmUp: warm},
		"without a warm-up":        {Requests: 70},
		"a duration without one":   {Duration: 200 * time.Millisecond},
		"longer than one interval": {Duration: 10 * time.Second, WarmUp: warm},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []JournalCall
				var guard sync.Mutex
				served := &server{delay: 1700 * time.Microsecond, stall: 9 * time.Millisecond, period: 50 * time.Millisecond, failEvery: 17}
				for i := range 5 {
					p.Callers = append(p.Callers, journalist{uint32(i), served, &guard, &calls})
				}
				p.Classify = func(error) record.ErrorCount { return record.ErrorCount{Class: "scripted", Code: "Unknown"} }
				ran := mustRun(t, p)
				rand.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
				again, err := Replay(p, Journal{
					Calls: calls, Begin: ran.Begin, End: ran.End,
					Failures: []record.ErrorCount{{Class: "scripted", Code: "Unknown", Example: "scripted fault"}},
				})
				if err != nil {
					t.Fatal(err)
				}
				same(t, ran, again)
			})
		})
	}
}

func same(t *testing.T, ran, again *Result) {
	t.Helper()
	sameCounts(t, ran, again)
	var inIntervals, inStretches int64
	for _, i := range again.Intervals {
		inIntervals += i.Requests
	}
	for _, n := range again.Course.Calls {
		inStretches += n
	}
	want := ran.WarmUp.Requests + ran.Requests
	if ran.WarmUp.TookNS > 0 {
		want += 5 // in flight when the window opened
	}
	if inIntervals != want || inStretches != want {
		t.Errorf("%d calls in the intervals and %d in the course, want %d", inIntervals, inStretches, want)
	}
}

func sameCounts(t *testing.T, ran, again *Result) {
	t.Helper()
	for _, r := range []*Result{ran, again} {
		if err := r.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	if again.Begin != ran.Begin || again.End != ran.End || again.Between != ran.Between {
		t.Errorf("window %d to %d with %v between calls; want %d, %d, %v", again.Begin, again.End, again.Between, ran.Begin, ran.End, ran.Between)
	}
	type counts struct {
		requests, completed, straddling, straddled, warmUp, tookNS int64
		inFlight, active                                           float64
		service                                                    string // all its buckets
	}
	of := func(r *Result) counts {
		return counts{
			r.Requests, r.Completed, r.Straddling, r.StraddlingNS, r.WarmUp.Requests, r.WarmUp.TookNS,
			r.InFlight, r.Active, r.Service.Histogram,
		}
	}
	if got, want := of(again), of(ran); got != want {
		t.Errorf("worked out %+v\nmeasured   %+v", got, want)
	}
	if len(again.Failures) != 1 || again.Failures[0] != ran.Failures[0] {
		t.Errorf("failures %+v, want %+v", again.Failures, ran.Failures)
	}
}

// What cannot have been is refused, and named.
func TestReplayRefuses(t *testing.T) {
	good := JournalCall{Due: 10, Sent: 10, Ended: 20}
	p := Plan{Callers: make([]Caller, 1), Requests: 1}
	for says, j := range map[string]Journal{
		"no call":                     {},
		"caller number 1":             {Calls: []JournalCall{{Due: 10, Sent: 10, Ended: 20, Caller: 1}}},
		"failure number 1":            {Calls: []JournalCall{{Due: 10, Sent: 10, Ended: 20, Failure: 1}}},
		"and ended at 5":              {Calls: []JournalCall{{Due: 10, Sent: 10, Ended: 5}}},
		"was due at 11":               {Calls: []JournalCall{{Due: 11, Sent: 10, Ended: 20}}},
		"CLOCK_MONOTONIC":             {Calls: []JournalCall{good, {Due: 10, Sent: 10, Ended: 1 << 62}}},
		"want nanoseconds":            {Calls: []JournalCall{{Due: math.MinInt64, Sent: 0, Ended: 1 << 62}}},
		"want a begin between":        {Calls: []JournalCall{good}, Begin: 21},
		"window begins at instant 1,": {Calls: []JournalCall{{Due: 1 << 40, Sent: 1 << 40, Ended: 1<<40 + 1}}, Begin: 1},
		"than the planned 1":          {Calls: []JournalCall{good, good}},
	} {
		if _, err := Replay(p, j); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want an error that says %q", err, says)
		}
	}
	p.Requests, p.Duration = 0, time.Second
	if _, err := Replay(p, Journal{Calls: []JournalCall{good}, Begin: 5, End: 6}); err == nil || !strings.Contains(err.Error(), "asks for 1s") {
		t.Errorf("a window of another length: %v", err)
	}
	if _, err := Replay(p, Journal{Calls: []JournalCall{good}, Begin: 0, End: int64(time.Second)}); err != nil {
		t.Errorf("what is right: %v", err)
	}
}

// What Run measured in slices, Replay works out of the calls that were written down.
func TestReplayAgreesWithSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []JournalCall
		var guard sync.Mutex
		served := &server{delay: 1700 * time.Microsecond, stall: 9 * time.Millisecond, period: 50 * time.Millisecond, zero: clock.Now(), failEvery: 17}
		const rounds, runIn, length = 20, 5 * time.Millisecond, 30 * time.Millisecond
		p := Plan{Duration: rounds * (length - runIn), WarmUp: WarmUp{AtLeast: 40 * time.Millisecond, AtMost: 80 * time.Millisecond}}
		for i := range 5 {
			p.Callers = append(p.Callers, journalist{uint32(i), served, &guard, &calls})
		}
		p.Classify = func(error) record.ErrorCount { return record.ErrorCount{Class: "scripted", Code: "Unknown"} }
		given := p
		given.Opens, given.Controls = OnSlices, &Controls{}
		turns := alternate(clock.Now()+int64(time.Second), 2, rounds, runIn, length)[0]
		after(t, 500*time.Millisecond, func() { given.Controls.TakeTurns(turns, turns[rounds-1].To) })
		ran := mustRun(t, given)
		// A client in another language sends nothing after its last slice.
		calls = slices.DeleteFunc(calls, func(c JournalCall) bool { return c.Sent >= ran.End })
		journal := Journal{Calls: calls, Begin: ran.Begin, End: ran.End, Slices: turns, Failures: []record.ErrorCount{{Class: "scripted", Code: "Unknown", Example: "scripted fault"}}}
		again, err := Replay(p, journal)
		if err != nil {
			t.Fatal(err)
		}
		// They begin the rest at other instants.
		again.WarmUp.TookNS = ran.WarmUp.TookNS
		sameCounts(t, ran, again)
		if !slices.Equal(again.Slices, ran.Slices) || again.EndedBetween != ran.EndedBetween || again.PausedNS != ran.PausedNS || again.Pauses != 0 || len(ran.Slices) != rounds || ran.Requests < 1000 {
			t.Errorf("worked out %+v, %d ended between, %d ns paused in %d pauses\nmeasured   %+v, %d, %d", again.Slices, again.EndedBetween, again.PausedNS, again.Pauses, ran.Slices, ran.EndedBetween, ran.PausedNS)
		}
	})
}

// Calls in the turns of others, and slices that were not kept, are refused.
func TestReplayRefusesBrokenTurns(t *testing.T) {
	turns := []Slice{{Send: 100, From: 110, To: 200}, {Send: 300, From: 310, To: 400}}
	warm := JournalCall{Due: 10, Sent: 10, Ended: 20}
	at := func(sent int64) JournalCall { return JournalCall{Due: sent, Sent: sent, Ended: sent + 5} }
	p := Plan{Callers: make([]Caller, 1), Duration: 180}
	for says, j := range map[string]Journal{
		"":                             {Calls: []JournalCall{warm, at(100), at(199), at(300), at(399)}, Begin: 110, End: 400},
		"its slices from 110 to 400":   {Calls: []JournalCall{warm}, Begin: 15, End: 195},
		"5ns after the end of slice 1": {Calls: []JournalCall{warm, at(205)}, Begin: 110, End: 400},
		"0s after the end of slice 2":  {Calls: []JournalCall{warm, at(400)}, Begin: 110, End: 400},
		"no call before its first":     {Calls: []JournalCall{at(106)}, Begin: 110, End: 400},
	} {
		j.Slices = turns
		if _, err := Replay(p, j); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want an error that says %q", err, says)
		}
	}
}
