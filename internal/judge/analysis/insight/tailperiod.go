package insight

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
)

const (
	leastDistances  = 6   // fewer distances between slow calls may be equal by chance
	regularShare    = 0.6 // share of the distances that must be near their median
	callTolerance   = 0.02
	periodTolerance = 0.1
)

// period returns the distance between slow calls in calls or in microseconds, if it is regular. Here a
// call is slow if it takes longer than the middle between the median and the slow calls.
func (of tailPasses) period() (calls *int, us *float64) {
	var inCalls, inTime []float64
	for _, p := range of {
		limit := (p.slow.mean + p.median.mean) / 2
		var slow []int
		for call, time := range p.times {
			if time > limit {
				slow = append(slow, call)
			}
		}
		inCalls = append(inCalls, distances(lists.Map(slow, func(call int) float64 { return float64(call) }))...)
		if len(p.life.Begins) == 0 {
			continue
		}
		begins := slices.Sorted(slices.Values(lists.Map(slow, func(call int) float64 { return float64(p.life.Begins[call]) / 1e3 })))
		// One pause may hit many calls in flight. They are one event.
		inTime = append(inTime, distances(slices.CompactFunc(begins, func(a, b float64) bool { return math.Abs(b-a) < p.slow.mean }))...)
	}
	if every, regular := regularDistance(inCalls, callTolerance); regular && every >= 2 {
		return new(int(every)), nil
	}
	if every, regular := regularDistance(inTime, periodTolerance); regular {
		return nil, new(every)
	}
	return nil, nil
}

func distances(of []float64) (all []float64) {
	for i := 1; i < len(of); i++ {
		all = append(all, of[i]-of[i-1])
	}
	return all
}

// regularDistance returns the median distance, and whether most distances are near it.
func regularDistance(of []float64, tolerance float64) (every float64, regular bool) {
	every = stats.Median(of)
	near := 0
	for _, one := range of {
		if math.Abs(one-every) <= tolerance*every {
			near++
		}
	}
	return every, len(of) >= leastDistances && float64(near) >= regularShare*float64(len(of))
}
