package load

import (
	"sort"
	"time"

	"wirelab.dev/internal/stats"
)

// WarmUp limits the time before the window. With the zero value there is no
// warm-up: the window opens with the first request.
type WarmUp struct {
	AtLeast, AtMost time.Duration
}

// WarmUpResult holds the length of the warm-up, and the length that would have
// been enough, computed afterwards from the whole course.
type WarmUpResult struct {
	Took     time.Duration
	Requests int64
	Settled  bool
	// Enough and EnoughRequests say where the steady state began, counted from
	// the first request. Known is false if the course never became steady.
	Enough         time.Duration
	EnoughRequests int64
	Known          bool
}

// tick is the length of an interval of the course. It is short, because MSER-5
// needs many intervals, and every trial waits for its warm-up.
const tick = 5 * time.Millisecond

// roundsBeforeSteady is the mean number of calls that each client must have ended
// before the course can be steady: in the first round of a closed loop all
// clients send at once.
const roundsBeforeSteady = 3

// steady reports whether the throughput of the course is steady.
func steady(course []Interval, clients int) bool {
	var requests int64
	for _, i := range course {
		requests += i.Requests
	}
	if requests < int64(roundsBeforeSteady*clients) {
		return false
	}
	_, settled := stats.MSER5(throughputs(course))
	return settled
}

// until returns the intervals that ended by the instant. After the window clients
// stop one by one, so later intervals do not have the planned load.
func until(course []Interval, instant int64) []Interval {
	n := sort.Search(len(course), func(i int) bool { return course[i].Start+int64(course[i].Took) > instant })
	return course[:n]
}

// enough finds where the steady state began in the course.
func enough(course []Interval) (took time.Duration, requests int64, ok bool) {
	cut, settled := stats.MSER5(throughputs(course))
	if !settled {
		return 0, 0, false
	}
	for _, i := range course[:cut] {
		took += i.Took
		requests += i.Requests
	}
	return took, requests, true
}

func throughputs(course []Interval) []float64 {
	series := make([]float64, len(course))
	for n, i := range course {
		series[n] = float64(i.Requests) / i.Took.Seconds()
	}
	return series
}

// condense merges neighbouring intervals until at most limit are left.
func condense(course []Interval, limit int) []Interval {
	for len(course) > limit {
		half := make([]Interval, 0, (len(course)+1)/2)
		for n := 0; n < len(course); n += 2 {
			merged := course[n]
			if n+1 < len(course) {
				merged.Took += course[n+1].Took
				merged.Requests += course[n+1].Requests
				merged.Sum += course[n+1].Sum
			}
			half = append(half, merged)
		}
		course = half
	}
	return course
}
