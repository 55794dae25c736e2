package stats

// A Backlog describes an open loop's queue over a window.
type Backlog struct {
	// OfferedPerSecond is the schedule's rate, not that of the arrivals that chance put
	// into the window: a queue that is never empty serves at its own rate, so the
	// chance in the arrivals would only hide it.
	OfferedPerSecond float64
	ServedPerSecond  []float64 // in equal stretches of the window, in order
	Grew             float64   // arrivals less answers over the window
	Mean             float64   // requests that were due and not answered, in the mean
}

const (
	// leastStretches is the fewest stretches that show how the served rate varies.
	leastStretches = 5
	// beyondConfidence makes the chance of calling a queue overloaded that is not at
	// most 1 in 200 for each trial, and less by the two conditions below.
	beyondConfidence = 0.99
	// grownShare is the smallest share of the mean backlog, and so of the mean response time,
	// that growth within the window must explain: a tenth moves the mean by a tenth.
	grownShare = 0.10
	// leastGrowth is the growth that requests at the edges of the window explain.
	leastGrowth = 5
)

// BeyondCapacity reports whether more was offered than can be served, and returns the
// rate that was served, which is then the capacity. It assumes that stretches of a queue
// that is never empty vary independently. By simulation (package judge): of queues with
// 95 % of their capacity offered it calls at most 1 % overloaded; of those with 104 %,
// nearly all whose answers come evenly, and 8 in 10 of those with exponential service
// times, from 10,000 requests on; of those with 109 %, all.
func (b Backlog) BeyondCapacity() (served Interval, beyond bool, err error) {
	if len(b.ServedPerSecond) < leastStretches {
		return Interval{}, false, ErrTooFew
	}
	served, err = MeanInterval(b.ServedPerSecond, beyondConfidence)
	if err != nil {
		return Interval{}, false, err
	}
	grown := b.Grew >= leastGrowth && b.Grew/2 > grownShare*b.Mean
	return served, grown && b.OfferedPerSecond > served.High, nil
}
