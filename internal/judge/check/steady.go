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

// certainInQueues is the evidence required for a drift of an open loop's service times. Near
// capacity a queue goes up and down for seconds, so neighbouring intervals are alike: at 80 to 95
// % of the capacity, 1 in 100 windows shows more, of 1 s as of 5 s. Its drift is at most a
// warning.
const certainInQueues = 6

// settled checks that the window opened in a steady state, by the intervals before and in it.
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
	warm := fmt.Sprintf("%.0f ms and %d requests", float64(t.WarmUp.TookNS)/1e6, t.WarmUp.Requests)
	if learnt := t.WarmUp.LearntNS; learnt != nil {
		warm += fmt.Sprintf(" (at least %.0f ms, after earlier trials)", float64(*learnt)/1e6)
	}
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
		verdict(&c, level, "the window opened too early, after %s: %s was still changing, and its mean is about %s too %s; a warm-up of %.1f s would have been enough",
			warm, map[bool]string{true: "the throughput", false: "the service time"}[t.Pacing == nil], percent(off),
			map[bool]string{true: "low", false: "high"}[drift.Bias < 0], t.enough(drift).Seconds())
	}
	return c
}

// drift reads the course of the window: the throughput, or the service time if a schedule fixes
// the throughput.
func (t trial) drift() (stats.Drift, bool) {
	if m := t.Cell.Load.Model; m == burst || m == "ramp" || t.Cell.Clients <= 0 {
		return stats.Drift{}, false
	}
	// If clients have a number of requests, some finish before others: the course is followed
	// while almost all are at work.
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

// WarmUpNeeded returns the warm-up that an unsteady trial would have needed.
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

const (
	// courseAtLeast is the number of intervals in a window that distinguishes a step from chance,
	// and partAtLeast the smallest share of them on either side. Other checks find shorter
	// disturbances.
	courseAtLeast = 20
	partAtLeast   = 0.2
	// apart is the share of pairs in which an interval of one side must be slower than one of the
	// other. Without a step, noise reaches it in less than one window of 100
	// (TestChanceMakesNoStep).
	apart = 0.95
)

// course checks that calls took as long at the window's end as at its beginning. If a server
// answers from a cache from some moment on, or is still warming up, the mean mixes two different
// things.
func (t trial) course() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	if m := t.Cell.Load.Model; m == burst || m == "ramp" || t.Search != nil {
		c.Detail = "does not apply: a " + m + " is never steady"
		return c
	}
	course := t.window()
	if len(course) < courseAtLeast {
		c.Detail = "the window is too short to show a course"
		return c
	}
	at, separation := bestStep(course)
	whole, before, after := meanOf(course), meanOf(course[:at]), meanOf(course[at:])
	// The server would continue as at the end.
	off := math.Abs(whole/meanOf(course[len(course)-marginOf(len(course)):]) - 1)
	c.Figure, c.Limit = &off, new(t.limits.Moved.Warning)
	c.Detail = "calls took as long at the window's end as at its begin"
	// At most a warning: a neighbour's long burst does the same, and its own checks refuse it.
	if separation >= apart && off > t.limits.Moved.Warning {
		verdict(&c, record.Warning, "calls took %s in the mean until %.0f ms into the window, and %s from then on: the mean of %s describes neither",
			units.Time(before), float64(course[at].StartNS)/1e6, units.Time(after), units.Time(whole))
	}
	return c
}

// window returns the intervals of the window in which calls ended.
func (t trial) window() []record.Interval {
	return slices.DeleteFunc(slices.Clone(t.Intervals), func(i record.Interval) bool {
		return i.StartNS < 0 || i.StartNS+i.TookNS > t.WindowNS || i.Requests <= 0
	})
}

// bestStep returns the place that separates the intervals best by their mean service times, and
// the share of pairs in which one side is slower than the other: 0.5 is chance, 1 is always.
func bestStep(course []record.Interval) (at int, separation float64) {
	n := len(course)
	ranks := ranksOf(course)
	margin := marginOf(n)
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

// marginOf returns the smallest number of intervals on one side of a step, of n.
func marginOf(n int) int { return max(1, int(partAtLeast*float64(n))) }

// ranksOf ranks the intervals by mean service time from 1; equal ones share a rank.
func ranksOf(course []record.Interval) []float64 {
	order := make([]int, len(course))
	for i := range order {
		order[i] = i
	}
	mean := func(i int) float64 { return meanOf(course[i : i+1]) }
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

// meanOf returns the mean service time of the calls in the intervals.
func meanOf(course []record.Interval) float64 {
	var sum, calls int64
	for _, i := range course {
		sum += i.SumNS
		calls += i.Requests
	}
	return float64(sum) / float64(calls)
}

// These limits separate two kinds of calls, with almost no call of a time between them. Five of
// the 614 trials of all studies have such a gap; in four, half of the calls failed at once.
const (
	groupsApart = 3    // smallest ratio of the slower calls to the faster ones
	groupLeast  = 0.1  // smallest share of the calls for a group
	inTheGap    = 0.01 // largest share of the calls between the groups
)

// groups checks that all calls are of one kind. A balancer before two unequal servers, or a cache
// with half of the answers, makes two kinds, and the mean describes neither.
func (t trial) groups() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "all calls are of one kind, judged by their times"}
	h, err := t.Service.Decode()
	if err != nil || h.Count() < courseAtLeast/groupLeast {
		return c
	}
	for quick := groupLeast; quick <= 1-groupLeast-inTheGap; quick += inTheGap / 2 {
		longest, shortest := h.Quantile(quick), h.Quantile(quick+inTheGap)
		if shortest <= groupsApart*longest {
			continue
		}
		slow := 1 - quick
		c.Figure, c.Limit = &slow, new(groupLeast)
		verdict(&c, record.Warning, "%s of the calls took %s and more, and the others %s at most: there are two kinds of calls, and the mean describes neither",
			percent(slow), units.Time(float64(shortest)), units.Time(float64(longest)))
		return c
	}
	return c
}
