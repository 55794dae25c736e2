package check

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

const (
	// courseAtLeast is the number of intervals in a window that separate a step from chance,
	// and partAtLeast the share of them on either side of one. Anything shorter is a
	// disturbance, for other checks.
	courseAtLeast = 20
	partAtLeast   = 0.2
	// apart is the share of pairs in which an interval of one side must be slower than one of
	// the other. Without a step the best place of intervals of any noise reaches it in less
	// than one window of 100 (TestChanceMakesNoStep).
	apart = 0.95
)

// course checks that the calls at the window's end took as long as those at its begin. A
// server that answers from a cache from some moment on, or that is still getting up to
// speed, makes a mean of two different things.
func (t trial) course() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	if m := t.Cell.Load.Model; m == burst || m == "ramp" || t.Search != nil {
		c.Detail = "does not apply: a " + m + " is never steady"
		return c
	}
	course := t.window()
	if len(course) < courseAtLeast {
		c.Detail = "the window is too short to have a course"
		return c
	}
	at, separation := bestStep(course)
	whole, before, after := meanOf(course), meanOf(course[:at]), meanOf(course[at:])
	// The server would go on as it ended.
	off := math.Abs(whole/meanOf(course[len(course)-marginOf(len(course)):]) - 1)
	c.Figure, c.Limit = &off, new(t.limits.Moved.Warning)
	c.Detail = "calls took as long at the window's end as at its begin"
	// A warning however far they are apart: a neighbour's long burst does the same, and
	// is refused by checks that know of it.
	if separation >= apart && off > t.limits.Moved.Warning {
		verdict(&c, record.Warning, "calls took %s in the mean until %.0f ms into the window, and %s from then on: the mean of %s is of neither",
			units.Time(before), float64(course[at].StartNS)/1e6, units.Time(after), units.Time(whole))
	}
	return c
}

// window returns the part of the course that lies in the window and in which calls ended.
func (t trial) window() []record.Interval {
	return slices.DeleteFunc(slices.Clone(t.Intervals), func(i record.Interval) bool {
		return i.StartNS < 0 || i.StartNS+i.TookNS > t.WindowNS || i.Requests <= 0
	})
}

// bestStep returns the place that separates the intervals best, by their mean service
// times, and how often one of the one side is slower than one of the other: 0.5 is never
// more than chance, 1 always.
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
		// The Mann-Whitney U of the first k against the rest.
		pairs := float64(k) * float64(n-k)
		of := (sum - float64(k)*float64(k+1)/2) / pairs
		if of = max(of, 1-of); of*math.Sqrt(pairs) > best {
			at, separation, best = k, of, of*math.Sqrt(pairs)
		}
	}
	return at, separation
}

// marginOf returns how many of n intervals are a part of the window.
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
