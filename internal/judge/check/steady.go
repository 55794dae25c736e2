package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// queueDriftEvidence is the evidence that proves a drift of an open loop's service times. It is
// high, because near capacity a queue grows and shrinks for seconds. At 80 to 95 % of the capacity,
// 1 in 100 windows of 1 s or 5 s exceeds this value without a drift.
const queueDriftEvidence = 6

// checkSettled checks that the load was steady when the window opened.
func (t trial) checkSettled() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	switch t.WarmUp.Method {
	case "none":
		c.Detail = "the scenario asks for no warm-up"
		return c
	case "fixed":
		c.Detail = "each step of a search has its own warm-up"
		return c
	}
	if t.stoppedListening() { // no warm-up would have been long enough
		c.Detail = "does not apply: the service stopped listening in the window"
		return c
	}
	warm := fmt.Sprintf("%.0f ms and %d requests", float64(t.WarmUp.TookNS)/1e6, t.WarmUp.Requests)
	if learnt := t.WarmUp.LearntNS; learnt != nil {
		warm += fmt.Sprintf(" (at least %.0f ms, as earlier trials needed)", float64(*learnt)/1e6)
	}
	c.Detail = "steady after " + warm
	drift, drifts := t.findDrift()
	if most := drift.LargestBias(); !t.WarmUp.Settled && !t.wasSteady() && !(most <= t.limits.Drift.Warning) {
		setVerdict(&c, record.Warning, "the throughput was not steady after %s, the longest allowed warm-up", warm)
		if drift.Evidence > 0 {
			c.Figure, c.Limit = &most, &t.limits.Drift.Warning
		}
	}
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
		setVerdict(&c, level, "the window opened too early, after %s: %s was still changing, and its mean is about %s too %s; use a warm-up of %.1f s",
			warm, map[bool]string{true: "the throughput", false: "the service time"}[t.Pacing == nil], units.Percent(off),
			map[bool]string{true: "low", false: "high"}[drift.Bias < 0], t.enoughWarmUp(drift).Seconds())
	}
	return c
}

// findDrift looks for a drift of the throughput in the window. If a schedule fixes the throughput,
// it looks for a drift of the service time.
func (t trial) findDrift() (stats.Drift, bool) {
	if m := t.Cell.Load.Model; m == burstModel || m == "ramp" || t.Cell.Clients <= 0 {
		return stats.Drift{}, false
	}
	drift := stats.FindDrift(t.seriesFrom(0))
	if t.Pacing != nil {
		return drift, drift.Evidence > queueDriftEvidence
	}
	return drift, drift.Evidence > stats.CertainDrift
}

// steadyEvidence is the evidence of a drift below which warm-up and window together are steady.
const steadyEvidence = 2

// wasSteady reports whether warm-up and window together show a steady state that began before the window
// opened. On a noisy machine, a warm-up alone often is too short to show it.
func (t trial) wasSteady() bool {
	enough := t.WarmUp.EnoughNS
	return enough != nil && *enough <= t.WarmUp.TookNS && stats.FindDrift(t.seriesFrom(*enough-t.WarmUp.TookNS)).Evidence < steadyEvidence
}

// seriesFrom returns the throughput of all intervals from an instant of the window on. If a schedule fixes
// the throughput, it returns the service times. It takes out what changed for most trials of a block alike:
// then the machine changed.
func (t trial) seriesFrom(startNS int64) (series []float64) {
	// If each client sends a fixed number of requests, some clients finish before others. Use only
	// the time in which almost all clients are at work.
	idle := 1 - min(1, t.Active/float64(t.Cell.Clients))
	end := float64(t.WindowNS) * (1 - 2*idle)
	for _, i := range t.Intervals {
		if i.StartNS < startNS || float64(i.StartNS+i.TookNS) > end || i.TookNS <= 0 {
			continue
		}
		switch pace := t.paceAt(i.StartNS + i.TookNS/2); {
		case t.Pacing == nil:
			series = append(series, float64(i.Requests)/float64(i.TookNS)/pace)
		case i.Requests > 0:
			series = append(series, float64(i.SumNS)/float64(i.Requests)*pace)
		}
	}
	return series
}

// paceAt returns the pace of the slice at an instant of the window, on a clock that stops between slices.
func (t trial) paceAt(instant int64) float64 {
	for _, s := range t.Slices {
		if instant < 0 {
			break
		}
		if instant -= s.TookNS; instant < 0 && s.Pace > 0 {
			return s.Pace
		}
	}
	return 1
}

// enoughWarmUp returns the length of a warm-up after which the load would have been steady.
func (t trial) enoughWarmUp(d stats.Drift) time.Duration {
	return time.Duration(t.WarmUp.TookNS) + time.Duration(d.After*float64(t.WindowNS))
}

// WarmUpNeeded returns the warm-up that an unsteady trial needed. It returns false for steady
// trials.
func WarmUpNeeded(r *record.Record, limits Limits) (time.Duration, bool) {
	t := trial{Record: r, limits: limits}
	if r.Failure != "" || r.WarmUp.Method == "none" || r.WarmUp.Method == "fixed" || t.stoppedListening() {
		return 0, false
	}
	drift, drifts := t.findDrift()
	if !drifts || math.Abs(drift.Bias) <= limits.Drift.Warning {
		return 0, false
	}
	return t.enoughWarmUp(drift), true
}

const (
	// leastIntervals is the least number of intervals in a window for finding a step. leastSideShare
	// is the least share of intervals on each side of it. Other checks find shorter changes.
	leastIntervals = 20
	leastSideShare = 0.2
	// leastSeparation is the least share of pairs, one interval from each side of a step, in which
	// the same side is slower. Noise alone reaches it in fewer than 1 of 100 windows
	// (TestChanceMakesNoStep).
	leastSeparation = 0.95
)

// checkCourse checks that calls took as long at the window's end as at its beginning. If they do
// not, for example because a cache fills, the mean mixes two different services.
func (t trial) checkCourse() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	if m := t.Cell.Load.Model; m == burstModel || m == "ramp" || t.Search != nil {
		c.Detail = "does not apply: a " + m + " is never steady"
		return c
	}
	course := t.windowIntervals()
	if len(course) < leastIntervals {
		c.Detail = "the window has too few intervals to compare its start with its end"
		return c
	}
	at, separation := bestStep(course)
	whole, before, after := meanServiceTime(course), meanServiceTime(course[:at]), meanServiceTime(course[at:])
	// After the window, calls would take as long as at its end.
	off := math.Abs(whole/meanServiceTime(course[len(course)-leastSide(len(course)):]) - 1)
	c.Figure, c.Limit = &off, new(t.limits.Moved.Warning)
	c.Detail = "calls took as long at the window's end as at its start"
	// This is only a warning: if another program caused the step, other checks refuse the trial.
	if separation >= leastSeparation && off > t.limits.Moved.Warning {
		setVerdict(&c, record.Warning, "calls took %s on average in the first %.0f ms of the window, and %s afterwards: the mean of %s describes neither; use a longer warm-up",
			units.Time(before), float64(course[at].StartNS)/1e6, units.Time(after), units.Time(whole))
	}
	return c
}

func (t trial) windowIntervals() []record.Interval {
	return slices.DeleteFunc(slices.Clone(t.Intervals), func(i record.Interval) bool {
		return i.StartNS < 0 || i.StartNS+i.TookNS > t.WindowNS || i.Requests <= 0
	})
}

// bestStep returns the index that divides the intervals best into slow and fast ones. separation is
// the share of pairs in which one side is slower than the other: 0.5 without a step, 1 for a
// perfect step.
func bestStep(course []record.Interval) (at int, separation float64) {
	n := len(course)
	ranks := ranksOf(course)
	margin := leastSide(n)
	var sum, best float64
	for k := 1; k <= n-margin; k++ {
		sum += ranks[k-1]
		if k < margin {
			continue
		}
		// The Mann-Whitney U of the first k intervals against the rest.
		pairs := float64(k) * float64(n-k)
		of := (sum - float64(k)*float64(k+1)/2) / pairs
		if of = max(of, 1-of); of*math.Sqrt(pairs) > best {
			at, separation, best = k, of, of*math.Sqrt(pairs)
		}
	}
	return at, separation
}

// leastSide returns the least number of intervals, of n, on each side of a step.
func leastSide(n int) int { return max(1, int(leastSideShare*float64(n))) }

// ranksOf ranks the intervals by mean service time from 1; equal intervals share a rank.
func ranksOf(course []record.Interval) []float64 {
	order := make([]int, len(course))
	for i := range order {
		order[i] = i
	}
	mean := func(i int) float64 { return meanServiceTime(course[i : i+1]) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(mean(a), mean(b)) })
	ranks := make([]float64, len(course))
	for i := 0; i < len(order); {
		same := i
		for same < len(order) && mean(order[same]) == mean(order[i]) {
			same++
		}
		for _, one := range order[i:same] {
			ranks[one] = float64(i+1+same) / 2
		}
		i = same
	}
	return ranks
}

func meanServiceTime(course []record.Interval) float64 {
	var sum, calls int64
	for _, i := range course {
		sum += i.SumNS
		calls += i.Requests
	}
	return float64(sum) / float64(calls)
}

// These limits find two groups of calls with almost no call between them. Of the 614 trials of all
// studies, five have two groups. In four of these trials, half of the calls failed at once.
const (
	leastGroupRatio = 3    // smallest ratio of the slower calls to the faster ones
	leastGroupShare = 0.1  // smallest share of the calls for a group
	maxGapShare     = 0.01 // largest share of the calls between the groups
)

// checkCallGroups checks that all calls take similar times. A load balancer before two unequal
// servers, or a cache with half of the answers, makes two groups, and the mean describes neither.
func (t trial) checkCallGroups() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "the calls' times form one group"}
	h, err := t.decode(&t.Service)
	if err != nil || h.Count() < leastIntervals/leastGroupShare {
		return c
	}
	for quick := leastGroupShare; quick <= 1-leastGroupShare-maxGapShare; quick += maxGapShare / 2 {
		longest, shortest := h.Quantile(quick), h.Quantile(quick+maxGapShare)
		if shortest <= leastGroupRatio*longest {
			continue
		}
		slow := 1 - quick
		c.Figure, c.Limit = &slow, new(leastGroupShare)
		setVerdict(&c, record.Warning, "%s of the calls took %s or more, and the others at most %s: there are two groups of calls, and the mean describes neither",
			units.Percent(slow), units.Time(float64(shortest)), units.Time(float64(longest)))
		return c
	}
	return c
}
