package matrix

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/data/record"
)

func TestLooksSpendTheWholeLevel(t *testing.T) {
	for _, c := range []struct {
		first, most int
		want        []int
	}{
		{3, 30, []int{3, 5, 8, 12, 18, 30}},
		{3, 4, []int{3, 4}},
		{3, 3, []int{3}},
		{5, 9, []int{5, 9}},
		{10, 100, []int{10, 15, 23, 35, 53, 80, 100}},
	} {
		looks := PlanLooks(c.first, c.most)
		sum := 0.0
		for i, look := range looks {
			sum += look.Level
			if i >= len(c.want) || look.Repeats != c.want[i] || look.Level <= 0 {
				t.Errorf("look %d from %d to %d: %+v, want after %v", i, c.first, c.most, look, c.want)
			}
		}
		if len(looks) != len(c.want) || math.Abs(sum-0.05) > 1e-12 {
			t.Errorf("from %d to %d: %d looks that spend %v", c.first, c.most, len(looks), sum)
		}
	}
}

// What time kept from being looked at leaves its level to the last look, as long as the run
// does not go on.
func TestTimeLeavesItsLevelToTheLastLook(t *testing.T) {
	until := record.Until{Looks: PlanLooks(3, 9)} // after 3, 5 and 9
	for _, c := range []struct {
		begun int
		ended string
		want  float64
	}{
		{1, "", 0.05 * 6 / 11},
		{1, record.EndedByTime, 0.05},
		{1, record.EndedAnswered, 0.05 * 6 / 11},
		{2, record.EndedByTime, 0.05 * 5 / 11},
		{3, record.EndedRepeats, 0.05 * 2 / 11},
	} {
		until.Begun, until.Ended = c.begun, c.ended
		if got := float64(LevelAfter(&until, 9)); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("after look %d, ended %q: level %v, want %v", c.begun, c.ended, got, c.want)
		}
		if got, want := float64(LevelAfter(&until, 3)), 0.05*6/11; c.begun > 1 && math.Abs(got-want) > 1e-12 {
			t.Errorf("after look %d, a cell that only the first look measured: level %v, want %v", c.begun, got, want)
		}
	}
}

// The intervals of runs that repeat until these are narrow hold the truth as often as they
// say, which those that take no account of the looks do not.
func TestNarrowIntervalsHoldTheTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of runs")
	}
	const runs = 4000
	random := rand.New(rand.NewPCG(3, 12))
	for _, c := range []struct{ noise, width float64 }{{0.02, 0.03}, {0.05, 0.03}, {0.05, 0.05}, {0.10, 0.05}} {
		for _, naive := range []bool{false, true} {
			covers, narrow, repeats := 0, 0, 0
			for range runs {
				var values []float64
				var f Figure
				for _, look := range PlanLooks(3, 100) {
					for len(values) < look.Repeats {
						values = append(values, math.Exp(c.noise*random.NormFloat64()))
					}
					at := Level(look.Level)
					if naive {
						at = 0
					}
					f = figure(values, at)
					if share, known := f.HalfWidth(); known && share <= c.width {
						narrow++
						break
					}
				}
				repeats += len(values)
				if f.Interval.Low <= 1 && 1 <= f.Interval.High {
					covers++
				}
			}
			covered := 100 * float64(covers) / runs
			t.Logf("noise %.0f %%, until %.0f %%, naive %v: %.1f repeats, narrow in %.0f %%, holds in %.1f %%",
				100*c.noise, 100*c.width, naive, float64(repeats)/runs, 100*float64(narrow)/runs, covered)
			if !naive && covered < 95 {
				t.Errorf("noise %v until %v: the interval holds the truth in %.1f %%", c.noise, c.width, covered)
			}
		}
	}
}
