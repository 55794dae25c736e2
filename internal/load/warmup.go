package load

import (
	"sort"
	"time"

	"wirelab.dev/internal/stats"
)

// WarmUp bounds what goes before the window. The zero value means no warm-up:
// the window opens with the first request.
type WarmUp struct {
	AtLeast, AtMost time.Duration
}

// WarmUpResult is what the warm-up was, and, seen afterwards over the whole
// course, what would have been enough.
type WarmUpResult struct {
	Took     time.Duration
	Requests int64
	Settled  bool
	// Enough and EnoughRequests are where the steady state began, from the
	// first request on; Known is false where the course never settled.
	Enough         time.Duration
	EnoughRequests int64
	Known          bool
}

// tick is the length of an interval of the course. It is short, because MSER-5
// wants many intervals before it may say anything, and a warm-up is paid in
// every trial.
const tick = 5 * time.Millisecond

// roundsBeforeSteady is how many calls each client must have ended, in the
// mean, before the course may be called steady: the first round of a closed
// loop is all clients sending at once.
const roundsBeforeSteady = 3

// steady tells whether the course so far has settled.
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

// until is the part of the course that ended by the instant: what comes after
// the window, when clients stop one by one, is not the load that was asked for.
func until(course []Interval, instant int64) []Interval {
	n := sort.Search(len(course), func(i int) bool { return course[i].Start+int64(course[i].Took) > instant })
	return course[:n]
}

// enough finds where the steady state began in the course.
func enough(course []Interval) (took time.Duration, requests int64, known bool) {
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
