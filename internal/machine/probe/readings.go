package probe

import (
	"fmt"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
)

// Readings holds counters that only grow. They are read periodically, since the window is known
// only when it is over.
type Readings struct {
	read    func(into []uint64) error
	columns int

	guard  sync.Mutex // Mark may come at any time
	taken  []reading
	failed error

	period time.Duration
	stop   chan struct{}
	done   chan struct{}
}

type reading struct {
	atNS   int64
	values []uint64
}

// TakeReadings reads a number of counters at once, and then periodically until Stop.
func TakeReadings(columns int, period time.Duration, read func(into []uint64) error) *Readings {
	r := &Readings{read: read, columns: columns, period: period, stop: make(chan struct{}), done: make(chan struct{})}
	r.Mark()
	go r.run()
	return r
}

// mostReadings limits the readings that are kept. At the limit every second one is dropped, and
// the period doubles.
const mostReadings = 256

func (r *Readings) run() {
	defer close(r.done)
	ticks := time.NewTicker(r.period)
	defer ticks.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-ticks.C:
			r.Mark()
			if r.thin() {
				ticks.Reset(r.period)
			}
		}
	}
}

// thin drops every second reading when there are too many, and keeps their memory.
func (r *Readings) thin() bool {
	r.guard.Lock()
	defer r.guard.Unlock()
	if len(r.taken) < mostReadings {
		return false
	}
	for i := range mostReadings / 2 {
		r.taken[i], r.taken[2*i] = r.taken[2*i], r.taken[i]
	}
	r.taken = r.taken[:mostReadings/2]
	r.period *= 2
	return true
}

// Mark takes a reading now, which separates exactly the counts before and after it.
func (r *Readings) Mark() {
	r.guard.Lock()
	defer r.guard.Unlock()
	if r.failed != nil {
		return
	}
	next := reading{atNS: clock.Now()}
	if len(r.taken) < cap(r.taken) { // that of a reading that went
		next.values = r.taken[:len(r.taken)+1][len(r.taken)].values
	}
	if next.values == nil {
		next.values = make([]uint64, r.columns)
	}
	if r.failed = r.read(next.values); r.failed == nil {
		r.taken = append(r.taken, next)
	}
}

// Stop takes a last reading.
func (r *Readings) Stop() {
	close(r.stop)
	<-r.done
	r.Mark()
}

// Between returns by how much each counter grew, after Stop. At an edge it takes the
// counters to have grown steadily between the readings around it.
func (r *Readings) Between(window Span) ([]float64, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	first, last := r.taken[0], r.taken[len(r.taken)-1]
	if window.BeginNS < first.atNS || window.EndNS > last.atNS {
		return nil, fmt.Errorf("the readings begin %v after the window and end %v before it",
			max(0, time.Duration(first.atNS-window.BeginNS)), max(0, time.Duration(window.EndNS-last.atNS)))
	}
	grown := r.at(window.EndNS)
	for i, before := range r.at(window.BeginNS) {
		grown[i] -= before
	}
	return grown, nil
}

// at returns the counters at an instant within the readings.
func (r *Readings) at(instant int64) []float64 {
	after := 0
	for r.taken[after].atNS < instant {
		after++
	}
	b := r.taken[after]
	a := r.taken[max(0, after-1)]
	share := 1.0
	if b.atNS > a.atNS {
		share = float64(instant-a.atNS) / float64(b.atNS-a.atNS)
	}
	values := make([]float64, r.columns)
	for i := range values {
		// The difference is small and exact where the counters are large.
		values[i] = float64(a.values[i]) + share*float64(b.values[i]-a.values[i])
	}
	return values
}
