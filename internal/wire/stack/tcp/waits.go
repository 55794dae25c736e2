package tcp

import (
	"sync/atomic"
	"time"
)

// stallInterval is the time between two checks for stalled peers. A peer may keep
// a server waiting in the middle of a frame for one to two intervals.
const stallInterval = 15 * time.Second

// peerWait records that a goroutine waits for its peer, so that a periodic check
// can find waits that last too long. A wait costs two atomic stores; a deadline
// on the connection would cost a call into the runtime's timers. Each wait has a
// number: one that the check finds twice in a row has stalled.
//
// A nil peerWait is never checked.
type peerWait struct {
	number atomic.Uint64 // of the current wait; 0: none
	count  uint64        // used by the waiting goroutine
	seen   uint64        // used by the check
}

func (w *peerWait) begin() {
	if w != nil {
		w.count++
		w.number.Store(w.count)
	}
}

func (w *peerWait) stop() {
	if w != nil {
		w.number.Store(0)
	}
}

// stalled reports whether the wait of its last call still lasts.
func (w *peerWait) stalled() bool {
	number, before := w.number.Load(), w.seen
	w.seen = number
	return number != 0 && number == before
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
