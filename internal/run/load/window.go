package load

import (
	"math"
	"sort"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// window holds the state that all clients read.
type window struct {
	bounds atomic.Pointer[bounds]
	past   atomic.Int64  // closed loop: clients whose measured calls have all ended
	over   atomic.Bool   // every client may stop
	limit  chan struct{} // the in-flight semaphore; nil: no limit
	ended  chan struct{} // closed after over was set
}

// stop ends the clients. Clients that think end at once.
func (w *window) stop() {
	if !w.over.Swap(true) {
		close(w.ended)
	}
}

// bounds holds the window's edges, as far as they are known. The controller replaces them as a
// whole, and ahead of time: it changes only edges in the future. A client loads the bounds after
// its call has ended, so every call has the same place in the old and the new bounds.
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

// running returns the instant on a clock that stops while the load is paused.
func (b *bounds) running(instant int64) int64 { return instant - b.cut(instant) }

// within returns the time between two instants that lies in the window.
func (b *bounds) within(from, to int64) int64 {
	from, to = max(from, b.begin), min(to, b.end)
	if to <= from {
		return 0
	}
	return b.running(to) - b.running(from)
}

// place numbers the side of the window's edges that an instant is on. Two instants have
// different places if an edge is between them.
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

// WarmUp limits the time before the window. With the zero value there is no
// warm-up: the window opens with the first request.
type WarmUp struct {
	AtLeast, AtMost time.Duration
}

// tick is the length of an interval of the course. It is short, because MSER-5
// needs many intervals, and every trial waits for its warm-up.
const tick = 5 * time.Millisecond

// roundsBeforeSteady is the mean number of calls that each client must have ended before the course
// can be steady: in the first round of a closed loop all clients send at once.
const roundsBeforeSteady = 3

// doubtfulDrift is the evidence of a drift at which a warm-up goes on. Half the evidence of a
// certain drift is enough, because a drift by chance passes with the next intervals.
const doubtfulDrift = 2

// steady reports whether the course is steady: MSER-5 says so, and the intervals that MSER-5 keeps
// have no drift. The second test is needed because MSER-5 fires at once on a course that changes
// slowly beside its noise.
func steady(course []record.Interval, clients int, of figure) bool {
	var requests int64
	for _, i := range course {
		requests += i.Requests
	}
	if requests < int64(roundsBeforeSteady*clients) {
		return false
	}
	series := of(course)
	cut, settled := stats.MSER5(series)
	if !settled {
		return false
	}
	drift := stats.FindDrift(series[cut:])
	return drift.Evidence < doubtfulDrift || drift.After < 1
}

// until returns the intervals that ended by the instant. After the window clients
// stop one by one, so later intervals do not have the planned load.
func until(course []record.Interval, instant int64) []record.Interval {
	n := sort.Search(len(course), func(i int) bool { return course[i].StartNS+course[i].TookNS > instant })
	return course[:n]
}

// setEnough sets where the steady state began in the course, if it did.
func setEnough(w *record.WarmUp, course []record.Interval, of figure) {
	cut, settled := stats.MSER5(of(course))
	if !settled {
		return
	}
	var took, requests int64
	for _, i := range course[:cut] {
		took += i.TookNS
		requests += i.Requests
	}
	w.EnoughNS, w.EnoughRequests = &took, &requests
}

// A figure returns one value per interval, by which the steady state of a course is judged.
type figure func(course []record.Interval) []float64

// serviceTimes returns the intervals' means. An interval in which no call ended has the mean of
// the interval before.
func serviceTimes(course []record.Interval) []float64 {
	series := make([]float64, len(course))
	for n, i := range course {
		switch {
		case i.Requests > 0:
			series[n] = float64(i.SumNS) / float64(i.Requests)
		case n > 0:
			series[n] = series[n-1]
		}
	}
	return series
}

func throughputs(course []record.Interval) []float64 {
	series := make([]float64, len(course))
	for n, i := range course {
		series[n] = float64(i.Requests) / time.Duration(i.TookNS).Seconds()
	}
	return series
}

// condense merges neighbouring intervals until at most limit are left.
func condense(course []record.Interval, limit int) []record.Interval {
	for len(course) > limit {
		half := make([]record.Interval, 0, (len(course)+1)/2)
		for n := 0; n < len(course); n += 2 {
			merged := course[n]
			if n+1 < len(course) {
				merged.TookNS += course[n+1].TookNS
				merged.Requests += course[n+1].Requests
				merged.SumNS += course[n+1].SumNS
			}
			half = append(half, merged)
		}
		course = half
	}
	return course
}

// figureOf returns the throughput for a closed loop, and the mean service time for an open loop,
// whose throughput is fixed by its schedule.
func figureOf(p *Plan) figure {
	if p.Open != nil {
		return serviceTimes
	}
	return throughputs
}
