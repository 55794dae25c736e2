package check

import (
	"fmt"
	"math"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// certainInQueues is the evidence of a drift of an open loop's service times. Near its
// capacity a queue goes up and down for seconds, so that neighbouring intervals are alike: of
// windows with 80 to 95 % of the capacity offered 1 in 100 shows more, of 1 s as of 5 s. It is
// a warning at most.
const certainInQueues = 6

// settled checks that the window opened in a steady state, by the intervals before it and by
// the window's own course.
func (t trial) settled() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	switch t.WarmUp.Method {
	case "none":
		c.Detail = "the scenario asks for no warm-up"
		return c
	case "fixed":
		c.Detail = "each step of a search has a warm-up of its own"
		return c
	}
	warm := fmt.Sprintf("%.0f ms and %d requests%s", float64(t.WarmUp.TookNS)/1e6, t.WarmUp.Requests, t.learnt())
	c.Detail = "steady after " + warm
	if !t.WarmUp.Settled {
		verdict(&c, record.Warning, "the throughput had not settled after %s, the longest warm-up allowed", warm)
	}
	drift, drifts := t.drift()
	if !drifts {
		return c
	}
	off := math.Abs(drift.Bias)
	c.Figure, c.Limit = &off, &t.limits.Drift.Warning
	if off > t.limits.Drift.Warning {
		level := record.Warning
		if math.Abs(drift.Seen) > t.limits.Drift.Invalid && t.Pacing == nil {
			level = record.Invalid
		}
		verdict(&c, level, "the window opened too early, after %s: %s was still on its way, and is about %s too %s in the mean; a warm-up of %.1f s would have been enough",
			warm, t.courseOf(), percent(off), map[bool]string{true: "low", false: "high"}[drift.Bias < 0], t.enough(drift).Seconds())
	}
	return c
}

func (t trial) learnt() string {
	if t.WarmUp.LearntNS == nil {
		return ""
	}
	return fmt.Sprintf(" (at least %.0f ms, after earlier trials)", float64(*t.WarmUp.LearntNS)/1e6)
}

// courseOf names the figure that shows the steady state: a schedule fixes the throughput of an
// open loop.
func (t trial) courseOf() string {
	if t.Pacing != nil {
		return "the service time"
	}
	return "the throughput"
}

// drift reads the window's course.
func (t trial) drift() (stats.Drift, bool) {
	if m := t.Cell.Load.Model; m == burst || m == "ramp" || t.Cell.Clients <= 0 {
		return stats.Drift{}, false
	}
	// Where clients have requests to make, some stop before others: the course is
	// followed until all but a few are still at work.
	idle := 1 - min(1, t.Active/float64(t.Cell.Clients))
	end := float64(t.WindowNS) * (1 - 2*idle)
	var series []float64
	for _, i := range t.Intervals {
		if i.StartNS < 0 || float64(i.StartNS+i.TookNS) > end || i.TookNS <= 0 {
			continue
		}
		switch {
		case t.Pacing == nil:
			series = append(series, float64(i.Requests)/float64(i.TookNS))
		case i.Requests > 0:
			series = append(series, float64(i.SumNS)/float64(i.Requests))
		}
	}
	drift := stats.FindDrift(series)
	if t.Pacing != nil {
		return drift, drift.Evidence > certainInQueues
	}
	return drift, drift.Evidence > stats.CertainDrift
}

// enough returns the warm-up after which the window would have been steady.
func (t trial) enough(d stats.Drift) time.Duration {
	return time.Duration(t.WarmUp.TookNS) + time.Duration(d.After*float64(t.WindowNS))
}

// WarmUpNeeded returns the warm-up that a trial would have needed. It returns false if its
// window was steady.
func WarmUpNeeded(r *record.Record, limits Limits) (time.Duration, bool) {
	t := trial{Record: r, limits: limits}
	if r.Failure != "" || r.WarmUp.Method == "none" || r.WarmUp.Method == "fixed" {
		return 0, false
	}
	drift, drifts := t.drift()
	if !drifts || math.Abs(drift.Bias) <= limits.Drift.Warning {
		return 0, false
	}
	return t.enough(drift), true
}
