package load

import (
	"sort"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// WarmUp limits the time before the window. With the zero value there is no
// warm-up: the window opens with the first request.
type WarmUp struct {
	AtLeast, AtMost time.Duration
}

// tick is the length of an interval of the course. It is short, because MSER-5
// needs many intervals, and every trial waits for its warm-up.
const tick = 5 * time.Millisecond

// roundsBeforeSteady is the mean number of calls that each client must have ended
// before the course can be steady: in the first round of a closed loop all
// clients send at once.
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

// A figure returns the value that the steady state of a course is judged by, for each interval.
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
