package check

import (
	"math"

	"wirelab.dev/internal/data/record"
)

// anotherRate is the relative difference above which the measured rate is not the rate that a
// search kept: half of the precision at which searches stop.
const anotherRate = 0.005

// searched checks that a search measured at the rate that it kept. Records of the first
// versions may hold a higher rate that lost its vote.
func (t trial) searched(c record.Check) record.Check {
	if t.Search == nil || c.Level != record.OK || t.WindowNS <= 0 || t.Search.KeptPerSecond <= 0 {
		return c
	}
	measured := float64(t.Pacing.Scheduled) / float64(t.WindowNS) * 1e9
	off := math.Abs(measured/t.Search.KeptPerSecond - 1)
	// A schedule has a whole number of arrivals.
	if off > anotherRate+1/float64(t.Pacing.Scheduled) {
		c.Figure, c.Limit = &off, new(anotherRate)
		verdict(&c, record.Warning, "the search kept %.0f/s, and what was measured beside it is of %.0f/s: latency, CPU time and traffic are of that rate", t.Search.KeptPerSecond, measured)
	}
	return c
}
