package fleet

import (
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
)

// course keeps the intervals of a worker's life, few however long that is: when there would be
// too many, neighbours become one. A record tells of half as many stretches.
type course struct {
	kept []worker.Interval
	each int // intervals in each that is kept
	last int // in the last
}

// mostCourse is how many are kept, an even number.
const mostCourse = 128

func (c *course) add(i worker.Interval) {
	c.each = max(1, c.each)
	if n := len(c.kept); n > 0 && c.last < c.each {
		c.kept[n-1] = joined(c.kept[n-1], i)
		c.last++
		return
	}
	if len(c.kept) == mostCourse {
		halves := make([]worker.Interval, 0, mostCourse)
		for pair := range slices.Chunk(c.kept, 2) {
			halves = append(halves, joined(pair[0], pair[1]))
		}
		c.kept = halves
		c.each *= 2
	}
	c.kept = append(c.kept, i)
	c.last = 1
}

// all are those that are kept.
func (c *course) all() []worker.Interval { return slices.Clone(c.kept) }

// joined is what two intervals, one behind the other, are together.
func joined(a, b worker.Interval) worker.Interval {
	all := worker.Interval{StartNS: a.StartNS, TookNS: b.StartNS + b.TookNS - a.StartNS, Ended: a.Ended + b.Ended, Failed: a.Failed + b.Failed}
	times := latency.NewCoarse()
	for _, one := range []worker.Interval{a, b} {
		if times.AddEncoded(one.Histogram) != nil {
			all.Histogram = one.Histogram // whoever reads it will say what is wrong
			return all
		}
	}
	all.Histogram, _ = times.Encode() // which fails for counts that no memory holds
	return all
}
