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
	bounds atomic.Pointer[windowBounds]
	past   atomic.Int64  // closed loop: the number of clients whose measured calls have all ended
	over   atomic.Bool   // every client may stop
	limit  chan struct{} // the in-flight semaphore; nil: no limit
	ended  chan struct{} // closed when over is set
}

// stop ends the clients. It also ends their think times.
func (w *window) stop() {
	if !w.over.Swap(true) {
		close(w.ended)
	}
}

// windowBounds holds the window's edges, as far as they are known. The controller replaces the
// whole struct, and changes only edges in the future. A client loads the bounds after its call
// has ended, so a change of the bounds never affects a call that has ended.
type windowBounds struct {
	begin  int64   // futureInstant during warm-up
	end    int64   // futureInstant if requests bound the window, and while it is paused
	pauses []pause // in order, including pauses of the warm-up
}

// Placeholders for instants that are not known.
const (
	futureInstant = math.MaxInt64
	pastInstant   = math.MinInt64
)

// pause is a time in which no requests are sent. It is not part of the window.
type pause struct {
	from, to int64         // to is futureInstant until the pause ends
	resumed  chan struct{} // closed when the end of the pause is known, or the load ends
}

// pausedBefore returns the paused time before the instant.
func (b *windowBounds) pausedBefore(instant int64) (paused int64) {
	for _, p := range b.pauses {
		paused += max(0, min(instant, p.to)-p.from)
	}
	return paused
}

// runningClock returns the instant on a clock that stops while the load is paused.
func (b *windowBounds) runningClock(instant int64) int64 { return instant - b.pausedBefore(instant) }

// timeInWindow returns the time between two instants that lies in the window.
func (b *windowBounds) timeInWindow(from, to int64) int64 {
	from, to = max(from, b.begin), min(to, b.end)
	if to <= from {
		return 0
	}
	return b.runningClock(to) - b.runningClock(from)
}

// edgesBefore returns how many edges of the window and of its pauses lie at or before an instant.
// Two instants have different numbers if an edge is between them.
func (b *windowBounds) edgesBefore(instant int64) int {
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

// pausedAt reports whether the load is paused at the instant.
func (b *windowBounds) pausedAt(instant int64) bool {
	for _, p := range b.pauses {
		if p.from <= instant && instant < p.to {
			return true
		}
	}
	return false
}

// openPause returns the pause that is not over yet, or nil.
func (b *windowBounds) openPause() *pause {
	if n := len(b.pauses); n > 0 && b.pauses[n-1].to == futureInstant {
		return &b.pauses[n-1]
	}
	return nil
}

// WarmUp limits the time before the window. With the zero value there is no
// warm-up: the window opens with the first request.
type WarmUp struct {
	AtLeast, AtMost time.Duration
}

// courseInterval is the length of an interval of the course. It is short, because MSER-5 needs many
// intervals to end the warm-up, and each trial waits for that.
const courseInterval = 5 * time.Millisecond

// roundsBeforeSteady is the mean number of calls that each client must have ended before the course
// can be steady: in the first round of a closed loop all clients send at once.
const roundsBeforeSteady = 3

// warmUpDriftEvidence is the evidence of a drift above which a warm-up continues. Half the
// evidence of a certain drift is enough, because a drift by chance soon disappears.
const warmUpDriftEvidence = 2

// isSteady reports whether the course is steady: MSER-5 finds a steady state, and the intervals in
// it have no drift. The drift test is needed because MSER-5 accepts a course whose drift is slow
// compared with its noise.
func isSteady(course []record.Interval, clients int, of seriesFunc) bool {
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
	return drift.Evidence < warmUpDriftEvidence || drift.After < 1
}

// intervalsUntil returns the intervals that ended by the instant. After the window clients
// stop one by one, so later intervals do not have the planned load.
func intervalsUntil(course []record.Interval, instant int64) []record.Interval {
	n := sort.Search(len(course), func(i int) bool { return course[i].StartNS+course[i].TookNS > instant })
	return course[:n]
}

// setSteadyBegin sets where the steady state began in the course, if it did.
func setSteadyBegin(w *record.WarmUp, course []record.Interval, of seriesFunc) {
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

// A seriesFunc returns one value per interval of a course. The values show whether it is steady.
type seriesFunc func(course []record.Interval) []float64

// meanServiceTimes returns the mean service time of each interval. If no call ended in an interval,
// it gets the mean of the interval before.
func meanServiceTimes(course []record.Interval) []float64 {
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

// mergeNeighbours merges neighbouring intervals until at most limit are left.
func mergeNeighbours(course []record.Interval, limit int) []record.Interval {
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

// steadinessSeries returns the throughput for a closed loop, and the mean service time for an open
// loop, whose throughput is fixed by its schedule.
func steadinessSeries(p *Plan) seriesFunc {
	if p.Open != nil {
		return meanServiceTimes
	}
	return throughputs
}
