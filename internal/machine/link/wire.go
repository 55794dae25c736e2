package link

import (
	"math"
	"math/bits"
)

// A wire is a path's rate: it sends frames one after the other, and refuses those for
// which its queue has no room. Without a rate it sends at once.
type wire struct {
	rate  uint64 // bits per second
	free  int64  // when it has sent all that it took
	part  uint64 // of a nanosecond that free is late: part/rate
	limit int64  // nanoseconds of work that it takes at most
}

func newWire(p Path) wire {
	w := wire{rate: uint64(p.Rate)}
	if w.rate > 0 {
		w.limit, _ = w.nanos(p.queueBytes(), 0)
		w.limit++ // what nanos leaves out
	}
	return w
}

// take adds a frame and returns when it has been sent; false if the queue is full.
func (w *wire) take(now int64, sizeBytes int) (sent int64, ok bool) {
	if w.rate == 0 {
		return now, true
	}
	begin, part := w.free, w.part
	if begin <= now {
		begin, part = now, 0
	}
	nanos, part := w.nanos(sizeBytes, part)
	if begin+nanos-now > w.limit {
		return 0, false
	}
	w.free, w.part = begin+nanos, part
	return w.free, true
}

// nanos returns how long a frame takes, in whole nanoseconds, and the rest. It adds the
// rest of the frame before, so that a rate is exact in the long run.
func (w *wire) nanos(sizeBytes int, part uint64) (whole int64, rest uint64) {
	const bitNanos = 8 * 1_000_000_000
	high, low := bits.Mul64(uint64(sizeBytes), bitNanos)
	low, carry := bits.Add64(low, part, 0)
	if high+carry >= w.rate {
		return math.MaxInt64 / 4, 0 // centuries
	}
	quotient, rest := bits.Div64(high+carry, low, w.rate)
	return int64(min(quotient, math.MaxInt64/4)), rest
}
