package check

import (
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// answers checks that no answer came sooner than the work takes that the workload asks
// for: a handler that sleeps for it cannot be early.
func (t trial) answers() record.Check {
	c := record.Check{Level: record.OK, Unit: "us", Detail: "the workload asks for no work that could be left out"}
	if t.WorkNS == nil || *t.WorkNS <= 0 {
		return c
	}
	h, err := t.Service.Decode()
	if err != nil || h.Count() == 0 {
		return c // bookkeeping says so
	}
	// Failed calls may be as quick as they like.
	failed := float64(t.Failed()) / float64(h.Count())
	soonest := h.Quantile(min(1, failed))
	if failed > 0 {
		soonest = h.Quantile(min(1, failed+t.limits.Errors))
	}
	work := float64(*t.WorkNS)
	c.Figure, c.Limit = new(float64(soonest)/1e3), new(work/1e3)
	c.Detail = "no answer came before the work could be done"
	if float64(soonest) < work*histogramPrecision {
		verdict(&c, record.Invalid, "answers came after %s, and the work that they ask for takes %s: the server leaves it out", units.Time(float64(soonest)), units.Time(work))
	}
	return c
}

// histogramPrecision is the precision of a histogram, which has three digits.
const histogramPrecision = 0.999
