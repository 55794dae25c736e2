package check

import (
	"cmp"
	"fmt"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// stretches is the number of parts into which a window is divided to see how its rate varies:
// with half as many, Student's t is a tenth wider; with more, single stalls fill a part.
const stretches = 20

// enoughRequests is the number of arrivals in a window that shows how the rate of its answers
// varies: with a hundred, each of 20 parts has five.
const enoughRequests = 100

// overload checks that an open loop offers no more than can be served. Otherwise its backlog
// grows, and its response times only show how long the window was. The check's figure is the
// rate that was served, its limit the one that was offered.
func (t trial) overload() record.Check {
	c := record.Check{Level: record.OK, Unit: "rps"}
	offered, steady := t.offeredPerSecond()
	if !steady {
		c.Detail = "does not apply: nothing is offered at a constant rate"
		return c
	}
	served, beyond, err := stats.Backlog{
		OfferedPerSecond: offered,
		ServedPerSecond:  t.ServedPerSecond(t.WindowNS, stretches),
		Grew:             t.grew(),
		Mean:             float64(cmp.Or(t.Response, &t.Service).Sum) / float64(t.WindowNS),
	}.BeyondCapacity()
	if err != nil { // a window that is too short to see its rate vary, or a record without its course
		served.Estimate = float64(t.Completed) / float64(t.WindowNS) * 1e9
	}
	if err != nil || t.Pacing.Scheduled < enoughRequests {
		beyond = beyond || t.stillWaiting() > t.limits.Behind*float64(t.Pacing.Scheduled)
	}
	c.Figure, c.Limit = &served.Estimate, &offered
	verdict(&c, record.OK, "%s/s were offered, and %s/s answered", rate(offered), rate(served.Estimate))
	if beyond {
		verdict(&c, record.Invalid, "beyond capacity, which is about %s/s%s: %s/s were offered, and %.0f more requests arrived in the window than were answered, so that response times only tell how long it lasted",
			rate(served.Estimate), between(served, offered), rate(offered), t.grew())
		if t.Search != nil { // the step kept its goal all the same
			c.Level = record.Warning
		}
	}
	return c
}

// between writes the interval of the capacity if it says anything.
func between(i stats.Interval, offered float64) string {
	if i.Confidence == 0 || i.Low <= 0 || i.High >= offered {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", rate(i.Low), rate(i.High))
}

// rate writes a rate without an exponent.
func rate(perSecond float64) string {
	if perSecond >= 100 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.3g", perSecond)
}

// stillWaiting counts the requests that were neither answered nor in flight when the window
// closed, less those in that state when it opened. It decides if the rate of the answers is
// unknown; otherwise a stall at the window's end would count as overload.
func (t trial) stillWaiting() float64 { return max(0, t.grew()-t.InFlight) }

// grew returns by how many requests the backlog grew over the window.
func (t trial) grew() float64 { return float64(t.Pacing.Scheduled - t.Completed) }

// offeredPerSecond returns the constant rate of the schedule. It returns false if there is
// none.
func (t trial) offeredPerSecond() (rate float64, steady bool) {
	load := t.Cell.Load
	if t.Pacing == nil || t.WindowNS <= 0 || load.Model == burst || load.Model == "ramp" {
		return 0, false
	}
	if load.Arrivals == "poisson" && load.RatePerSecond > 0 {
		return load.RatePerSecond, true
	}
	return float64(t.Pacing.Scheduled) / float64(t.WindowNS) * 1e9, true
}
