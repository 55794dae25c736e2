package load

import (
	"math"
	"sync/atomic"
	"time"
)

// window is read by all clients.
type window struct {
	bounds atomic.Pointer[bounds]
	past   atomic.Int64  // closed loop: clients whose measured calls have all ended
	over   atomic.Bool   // every client may stop
	limit  chan struct{} // the in-flight semaphore; nil: no limit
	ended  chan struct{} // closed after over was set
}

// stop ends the clients, those that think at once.
func (w *window) stop() {
	if !w.over.Swap(true) {
		close(w.ended)
	}
}

// bounds holds the window's edges, as far as they are known. The controller replaces them
// as a whole, and ahead of time: it changes only edges in the future. A client loads
// the bounds after its call has ended, so every call has the same place in the old and the
// new bounds.
type bounds struct {
	begin  int64   // notYet during warm-up
	end    int64   // notYet if the window is bounded by requests, and while it is paused
	pauses []pause // in order; those of the warm-up too
}

// Placeholders for instants that are not known.
const (
	notYet = math.MaxInt64
	never  = math.MinInt64
)

// pause is a time in which nothing is sent, and which is no part of the window.
type pause struct {
	from, to int64         // to is notYet until it is over
	resumed  chan struct{} // closed when to is known, or the trial ends
}

// cut returns the paused time before the instant.
func (b *bounds) cut(instant int64) (paused int64) {
	for _, p := range b.pauses {
		paused += max(0, min(instant, p.to)-p.from)
	}
	return paused
}

// running returns the instant on a clock that stands still while the load is paused.
func (b *bounds) running(instant int64) int64 { return instant - b.cut(instant) }

// within returns the time between two instants that lies in the window.
func (b *bounds) within(from, to int64) int64 {
	from, to = max(from, b.begin), min(to, b.end)
	if to <= from {
		return 0
	}
	return b.running(to) - b.running(from)
}

// place tells which side of the window's edges an instant is on: it differs for two
// instants if there is an edge between them.
func (b *bounds) place(instant int64) int {
	place := 0
	if instant >= b.begin {
		place++
	}
	if instant >= b.end {
		place++
	}
	for _, p := range b.pauses {
		if instant >= p.from {
			place++
		}
		if instant >= p.to {
			place++
		}
	}
	return place
}

// pausedAt reports whether nothing is to be sent at the instant.
func (b *bounds) pausedAt(instant int64) bool {
	for _, p := range b.pauses {
		if p.from <= instant && instant < p.to {
			return true
		}
	}
	return false
}

// open returns the pause that is not over yet, or nil.
func (b *bounds) open() *pause {
	if n := len(b.pauses); n > 0 && b.pauses[n-1].to == notYet {
		return &b.pauses[n-1]
	}
	return nil
}

// pausedIn returns the number of pauses, those of the warm-up included, and the paused time
// between the window's edges.
func (b *bounds) pausedIn() (pauses int64, took time.Duration) {
	return int64(len(b.pauses)), time.Duration(b.cut(b.end) - b.cut(b.begin))
}
