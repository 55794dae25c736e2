package crowd

import (
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
)

// A History keeps the intervals of a worker's life. Their number is bounded: when there would be
// too many, neighbours become one. A record has half as many stretches.
type History struct {
	kept []worker.Interval
	each int // intervals in each that is kept
	last int // in the last
}

// mostKept is an even number.
const mostKept = 128

// Add adds the next interval.
func (c *History) Add(i worker.Interval) {
	c.each = max(1, c.each)
	if n := len(c.kept); n > 0 && c.last < c.each {
		c.kept[n-1] = joined(c.kept[n-1], i)
		c.last++
		return
	}
	if len(c.kept) == mostKept {
		halves := make([]worker.Interval, 0, mostKept)
		for pair := range slices.Chunk(c.kept, 2) {
			halves = append(halves, joined(pair[0], pair[1]))
		}
		c.kept = halves
		c.each *= 2
	}
	c.kept = append(c.kept, i)
	c.last = 1
}

// All returns the intervals that are kept.
func (c *History) All() []worker.Interval { return slices.Clone(c.kept) }

// joined returns the interval that two successive ones make together.
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
