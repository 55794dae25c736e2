package conform

import (
	"errors"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
)

func TestTimesMustAgreeWithTheSighting(t *testing.T) {
	times := func(each time.Duration) latency.Distribution {
		r := latency.NewRecorder()
		defer r.Close()
		for range 150 {
			r.Record(int64(each))
		}
		d, err := latency.NewHistogram(r).Distribution()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const call = 21 * time.Millisecond
	for _, c := range []struct {
		name  string
		spoil func(*worker.ClientResult)
		wants []string // none: the result is right
	}{
		{"honest", func(*worker.ClientResult) {}, nil},
		{"a schedule whose calls go out late", func(r *worker.ClientResult) {
			r.EndNS, r.Completed, r.Pacing = r.BeginNS+int64(300*time.Millisecond), 42, &record.Pacing{}
		}, nil},
		{"half of each time", func(r *worker.ClientResult) {
			r.Service, r.InFlight, r.StraddlingNS = times(call/2), r.InFlight/2, r.StraddlingNS/2
		}, []string{"the shortest service time is 10.5ms", "3 straddling calls took 31.5ms", "1.500 calls in flight"}},
		{"twice each time", func(r *worker.ClientResult) {
			r.Service, r.InFlight, r.StraddlingNS = times(2*call), 2*r.InFlight, 2*r.StraddlingNS
		}, []string{"the times are too long", "6.000 calls in flight"}},
		{"a short response time", func(r *worker.ClientResult) {
			short := times(call / 2)
			r.Response = &short
		}, []string{"the shortest response time is 10.5ms", "a response time includes its service time"}},
		{"a response longer than the client ran", func(r *worker.ClientResult) {
			long := times(30 * time.Second)
			r.Response = &long
		}, []string{"the longest response time is 30s, but the client ran for 2s"}},
		{"a window before the client", func(r *worker.ClientResult) { r.BeginNS, r.EndNS = r.BeginNS-1e9, r.EndNS-1e9 }, []string{"the client's window lasts from"}},
		{"a window after the client", func(r *worker.ClientResult) { r.EndNS += 2e9 }, []string{"the client's window lasts from"}},
	} {
		r := &worker.ClientResult{BeginNS: 5e9, EndNS: 5e9 + int64(50*call), Measurement: record.Measurement{
			Requests: 150, Completed: 150, Straddling: 3, StraddlingNS: 3 * int64(call), InFlight: 3, Service: times(call),
		}}
		c.spoil(r)
		found := &checkRecorder{ctx: t.Context()}
		sighting{callers: 3, floor: int64(answerDelay), began: 4.9e9, ended: 6.9e9}.expectTimes(found, r)
		err := errors.Join(found.found...)
		if len(c.wants) == 0 && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, want := range c.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", c.name, want, err)
			}
		}
	}
}
