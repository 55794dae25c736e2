package check

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/data/record"
)

// courseOf is a course of a second in as many intervals as there are means, in
// nanoseconds, with a hundred calls each.
func courseOf(means ...float64) []record.Interval {
	took := int64(1e9) / int64(len(means))
	course := make([]record.Interval, len(means))
	for i, mean := range means {
		course[i] = record.Interval{StartNS: int64(i) * took, TookNS: took, Requests: 100, SumNS: int64(100 * mean)}
	}
	return course
}

// means returns n means, each a function of its place.
func means(n int, of func(place float64) float64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = of(float64(i) / float64(n))
	}
	return all
}

func TestAStepInTheCourseIsSeen(t *testing.T) {
	cache := func(place float64) float64 {
		if place < 0.6 {
			return 1e6
		}
		return 1e5
	}
	for _, c := range []struct {
		name  string
		means []float64
		level record.Level
		says  string
	}{
		{"none", means(100, func(float64) float64 { return 1e5 }), record.OK, "as long at the window's end"},
		{"a cache", means(100, cache), record.Warning, "calls took 1 ms on average in the first 600 ms of the window, and 100 µs afterwards"},
		{"a cache, seen coarsely", means(20, cache), record.Warning, "first 600 ms"},
		{"getting slower", means(100, func(place float64) float64 { return 1e5 * (1 + place) }), record.Warning, ""},
		{"getting up to speed", means(100, func(place float64) float64 { return 1e5 * (2 - place) }), record.Warning, ""},
		{"a step that moves nothing", means(100, func(place float64) float64 { return 1e5 + 1e4*math.Round(place) }), record.OK, ""},
		{"a disturbance at the end", means(100, func(place float64) float64 {
			if place > 0.9 {
				return 1e6
			}
			return 1e5
		}), record.OK, ""},
		{"one outlier", append(means(99, func(float64) float64 { return 1e5 }), 1e8), record.OK, ""},
		{"too short", means(19, cache), record.OK, "too few intervals"},
		{"nothing recorded", []float64{}, record.OK, "too few intervals"},
	} {
		r := sound(t)
		if len(c.means) > 0 {
			r.Intervals = courseOf(c.means...)
		}
		wantOnly(t, c.name, r, "course", c.level, c.says)
	}
}

// Warm-up and drain are no part of the window, and empty intervals have no mean.
func TestTheCourseIsTheWindows(t *testing.T) {
	r := sound(t)
	r.Intervals = courseOf(means(50, func(float64) float64 { return 1e5 })...)
	for i := range 50 {
		r.Intervals = append(r.Intervals,
			record.Interval{StartNS: int64(i-50) * 1e7, TookNS: 1e7, Requests: 100, SumNS: 1e9},
			record.Interval{StartNS: 1e9 + int64(i)*1e7, TookNS: 1e7, Requests: 100, SumNS: 1e9},
			record.Interval{StartNS: int64(i) * 1e7, TookNS: 1e7})
	}
	wantOnly(t, "window", r, "course", record.OK, "as long")
	r.Cell.Load.Model = "burst"
	wantOnly(t, "burst", r, "course", record.OK, "does not apply")
}

// The limit of the separation is chosen by this: the figures are in course.go.
func TestChanceMakesNoStep(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{leastIntervals, 60, 240} {
		seen := 0
		const windows = 1000
		for range windows {
			noise := means(n, func(float64) float64 {
				slow := 1.0
				if random.IntN(10) == 0 { // a neighbour's burst
					slow = 5
				}
				return slow * 1e5 * math.Exp(0.5*random.NormFloat64())
			})
			if _, separation := bestStep(courseOf(noise...)); separation >= leastSeparation {
				seen++
			}
		}
		if seen > windows/100 {
			t.Errorf("%d intervals: %d of %d windows of chance have a step", n, seen, windows)
		}
	}
}
