package check

import (
	"fmt"
	"math"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// sentinelSleepNS is the mean sleep of a sentinel. Sentinels meet every longer gap, and a
// share of the shorter ones that grows with the gap's length.
const sentinelSleepNS = 4e6

// gaps checks for how long others had the CPUs of an end when it was due on them.
func (t trial) gaps() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Detail: "nobody watched the CPUs of both ends"}
	c.Limit = &t.limits.Moved.Invalid
	if !t.watched() {
		return c
	}
	var stops []stop
	worst, away := end{}, -1.0
	for _, e := range t.ends() {
		stops = append(stops, t.stopsOf(e)...)
		if share := t.away(e); share > away {
			worst, away = e, share
		}
	}
	by := t.moved(stops...)
	c.Figure = &by.by
	verdict(&c, t.limits.Moved.level(by.by), "others had the %s's CPUs for %s of the time when it was due on them, for %s at most: %s",
		worst.name, percent(away), units.Time(float64(worst.Gaps.LongestNS)), by.words())
	return c
}

// stopsOf turns the gaps of an end into what they did to its requests.
func (t trial) stopsOf(e end) []stop {
	var stops []stop
	for _, length := range e.Gaps.Lengths {
		each := float64(length.SumNS) / float64(max(1, length.Count))
		count := float64(length.Count) * max(1, sentinelSleepNS/max(1, each)) // with those that were not met
		s := t.met(count/float64(max(1, e.Gaps.CPUs)), each)
		if each < sentinelSleepNS {
			// Nor does a request meet more of them than a sentinel does, each time that
			// it waits for a thread to run.
			share := float64(length.Count) / float64(max(1, e.Gaps.Wakings))
			s.touched = min(s.touched, share*t.turns(e))
		}
		if t.overrun(e) {
			s = stop{touched: 1, eachNS: math.Inf(1)}
		}
		stops = append(stops, s)
	}
	return stops
}

// overrun reports whether an open loop asked for more than gaps left of an end's CPUs.
// Then its requests wait for the sum of all gaps, not for one.
func (t trial) overrun(e end) bool {
	const room = 0.05 // with less a queue takes longer to empty than to fill again
	return t.Pacing != nil && e.Busy != nil && *e.Busy+t.away(e) > 1-room
}

// turns returns how often a request waits for a thread of an end to run, at least once.
func (t trial) turns(e end) float64 {
	if e.SwitchesVol == nil || e.SwitchesInv == nil {
		return 1
	}
	return max(1, float64(*e.SwitchesVol+*e.SwitchesInv)/float64(max(1, t.Requests)))
}

// away returns the share of the window in which other programs had an end's CPUs while it was
// ready to run.
func (t trial) away(e end) float64 {
	long, short := 0.0, 0.0
	for _, length := range e.Gaps.Lengths {
		if float64(length.SumNS) >= sentinelSleepNS*float64(length.Count) {
			long += float64(length.SumNS)
		} else {
			short += float64(length.Count)
		}
	}
	whole := float64(max(1, t.WindowNS)) * float64(max(1, e.Gaps.CPUs))
	return min(1, long/whole+short/float64(max(1, e.Gaps.Wakings)))
}

// pause checks whether both ends stood still at once, as when the hypervisor stops the
// whole machine.
func (t trial) pause() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Detail: "nobody watched both ends at once"}
	c.Limit = &t.limits.Moved.Invalid
	if t.only != "" {
		c.Level, c.Detail = record.OK, "does not apply: a fleet's ends are seen one by one"
		return c
	}
	if t.Host.BothStoppedNS == nil {
		return c
	}
	stopped := float64(*t.Host.BothStoppedNS)
	by := t.moved(t.met(1, stopped))
	c.Figure = &by.by
	c.Level = t.limits.Moved.level(by.by)
	c.Detail = fmt.Sprintf("both ends stood still at once for %s at most: %s", units.Time(stopped), by.words())
	return c
}
