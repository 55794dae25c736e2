package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// With schedules of their own, a slow stream delays only its own requests, and no other stream
// takes them over.
func TestASlowStreamKeepsItsOwnSchedule(t *testing.T) {
	for name, shared := range map[string]int{"one caller": 1, "three callers": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const streams, each, slow = 10, 200, 3
				var all []Caller
				for i := range streams * shared {
					delay := time.Millisecond
					if i/shared == slow {
						delay = time.Duration(shared) * 20 * time.Millisecond // the stream serves 50 per second
					}
					all = append(all, &server{delay: delay})
				}
				r := mustRun(t, Plan{
					Callers: all, Duration: 2 * time.Second, Drain: 20 * time.Second, OwnConnections: true, Sharing: shared,
					Open: &Arrivals{RatePerSecond: streams * each / 2, Own: true},
				})
				if len(r.ByConnection) != streams || r.Requests != streams*each {
					t.Fatalf("%d requests on %d streams: want %d on %d", r.Requests, len(r.ByConnection), streams*each, streams)
				}
				for _, one := range r.ByConnection {
					if one.Requests != each {
						t.Errorf("stream %d: %d requests, want %d", one.Client, one.Requests, each)
					}
				}
				if late := r.Late.Max(); late > 50*time.Microsecond {
					t.Errorf("the generator was late by %v", late)
				}
			})
		})
	}
}

// Random arrivals are spread over the streams, and none is lost where the drain is cut short.
func TestNoArrivalOfAStreamIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Plan{
			Callers: callers(7, &server{delay: 3 * time.Millisecond}), Duration: 300 * time.Millisecond, Drain: 100 * time.Millisecond,
			OwnConnections: true, Open: &Arrivals{RatePerSecond: 10_000, Own: true},
		}
		if r := mustRun(t, p); r.Requests+r.Pacing.Unsent != 3000 || r.Pacing.Unsent == 0 {
			t.Errorf("%d measured and %d unsent, of 3000", r.Requests, r.Pacing.Unsent)
		}
		p.Open = &Arrivals{RatePerSecond: 700, Own: true, Poisson: true, Seed: 1}
		for _, one := range mustRun(t, p).ByConnection {
			if one.Requests < 10 || one.Requests > 60 { // 30 are expected
				t.Errorf("stream %d got %d of about 210 arrivals", one.Client, one.Requests)
			}
		}
	})
}

var errCutShort = errors.New("cut short")

// patient waits for what never comes.
type patient struct{ comes time.Duration }

func (p patient) Call(ctx context.Context) error {
	if p.comes > 0 {
		time.Sleep(p.comes)
		return nil
	}
	<-ctx.Done()
	return errCutShort
}

func (patient) Unfinished(err error) bool { return errors.Is(err, errCutShort) }

// A wait that the end of the load cuts short is no failed call.
func TestAnUnfinishedWaitIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Callers: []Caller{patient{}, patient{comes: 10 * time.Millisecond}}, Duration: time.Second, Drain: time.Second})
		if r.Requests != 100 || len(r.Failures) > 0 {
			t.Errorf("%d requests, failures %v: want 100 and none", r.Requests, r.Failures)
		}
		if r.Between > time.Millisecond || r.ThoughtNS != int64(time.Second) {
			t.Errorf("%v between calls, and %v of waiting: want none, and a second", r.Between, time.Duration(r.ThoughtNS))
		}
	})
}
