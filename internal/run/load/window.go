package load

import (
	"math"
	"slices"
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
	slices int     // the window is this many slices, each but the first after a pause; 0: it has none
}

// Placeholders for instants that are not known.
const (
	futureInstant = math.MaxInt64
	pastInstant   = math.MinInt64
)

// pause is a time that is no part of the window. Nothing is sent in it, except at the end of a pause
// between slices.
type pause struct {
	from, to int64         // to is futureInstant until the pause ends
	send     int64         // the instant from which calls are sent again: to, or sooner between slices
	before   int64         // the sum of the pauses before
	resumed  chan struct{} // closed when the end of the pause is known, or the load ends
}

// pauseAt returns the pauses with another one that begins at an instant.
func (b *windowBounds) pauseAt(from int64) []pause {
	next := pause{from: from, to: futureInstant, send: futureInstant, resumed: make(chan struct{})}
	if n := len(b.pauses); n > 0 {
		last := b.pauses[n-1]
		next.before = last.before + last.to - last.from
	}
	return append(slices.Clone(b.pauses), next)
}

// A spot is an instant, and its place between the edges of the window and of its pauses.
type spot struct {
	at      int64
	running int64 // the instant on a clock that stops in pauses
	pauses  int   // pauses that began by then
	paused  bool  // the instant is in the last of them
	edges   int   // edges up to the instant: two instants with equal numbers have no edge between them
}

// find returns the spot of an instant. It looks from the near-th pause on, so that a client, whose
// calls follow one another, finds its spots at once.
func (b *windowBounds) find(instant int64, near int) spot {
	n := min(near, len(b.pauses))
	for n < len(b.pauses) && b.pauses[n].from <= instant {
		n++
	}
	for n > 0 && b.pauses[n-1].from > instant {
		n--
	}
	s := spot{at: instant, running: instant, pauses: n, edges: 2 * n}
	if n > 0 {
		last := &b.pauses[n-1]
		s.running -= last.before + min(instant, last.to) - last.from
		if s.paused = instant < last.to; s.paused {
			s.edges--
		}
	}
	if instant >= b.begin {
		s.edges++
	}
	if instant >= b.end {
		s.edges++
	}
	return s
}

// pausedBefore returns the paused time before the instant.
func (b *windowBounds) pausedBefore(instant int64) (paused int64) {
	return instant - b.runningClock(instant)
}

// runningClock returns the instant on a clock that stops while the load is paused.
func (b *windowBounds) runningClock(instant int64) int64 {
	return b.find(instant, len(b.pauses)).running
}

// timeInWindow returns the time between two instants that lies in the window.
func (b *windowBounds) timeInWindow(from, to int64) int64 {
	return b.between(b.find(from, len(b.pauses)), b.find(to, len(b.pauses)))
}

// between returns the time between two spots that lies in the window.
func (b *windowBounds) between(from, to spot) int64 {
	if to.at <= b.begin || from.at >= b.end {
		return 0
	}
	begin, end := from.running, to.running
	if from.at < b.begin {
		begin = b.runningClock(b.begin)
	}
	if to.at > b.end {
		end = b.runningClock(b.end)
	}
	return max(0, end-begin)
}

// sendFrom returns the next instant, from the given one on, at which calls may be sent.
func (b *windowBounds) sendFrom(instant int64) int64 {
	if s := b.find(instant, len(b.pauses)); s.paused {
		return max(instant, b.pauses[s.pauses-1].send)
	}
	return instant
}

// isAfterSlices reports whether the last slice is over. A call would then disturb another load's turn.
func (b *windowBounds) isAfterSlices(instant int64) bool { return b.slices > 0 && instant >= b.end }

// slice returns the number of the slice at a spot, from 0. It means nothing outside of slices.
func (b *windowBounds) slice(s spot) int { return s.pauses - (len(b.pauses) + 1 - b.slices) }

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
