package analysis

import (
	"cmp"
	"math"

	"wirelab.dev/internal/record"
)

// CoursePoint is a stretch of the window, over all valid trials.
type CoursePoint struct {
	Seconds    float64  `json:"seconds"`                           // its middle, from the window's beginning
	Offered    *float64 `json:"offered_rps" jsonschema:"nullable"` // that the schedule has there; null of a load without one
	Throughput float64  `json:"throughput_rps"`
	MeanUS     *float64 `json:"mean_us" jsonschema:"nullable"` // service time; null where nothing ended
}

const (
	// stretches is the number of points that a schedule's course has at most: enough to
	// see a bend, and few enough for each to hold more than a request or two.
	stretches = 60
	// closedStretches and leastStretches are those of a load that is meant to stay as it
	// is: a page has them for every cell, and in fewer nothing can be seen.
	closedStretches, leastStretches = 30, 8
)

// courseOf follows a load through its window; nil for those in which everything
// happens at once, and for windows with too few intervals to be divided.
func courseOf(cell record.Cell, trials []trial) []CoursePoint {
	length, most := float64(cell.Load.DurationNS), stretches
	switch cell.Load.Model {
	case "ramp", "sustained":
		if length <= 0 {
			return nil
		}
	case "closed", "open":
		// Windows end with the last request: what all of them have can be held together.
		length, most = math.Inf(1), closedStretches
		for _, t := range trials {
			length = min(length, float64(t.WindowNS))
			most = min(most, intervalsWithin(t.Intervals, t.WindowNS)/2)
		}
		if most < leastStretches {
			return nil
		}
	default:
		return nil
	}
	return follow(cell.Load, trials, length, most)
}

// intervalsWithin is how many intervals the window has whole.
func intervalsWithin(intervals []record.Interval, windowNS int64) (count int) {
	for _, i := range intervals {
		if i.StartNS >= 0 && i.StartNS+i.TookNS <= windowNS {
			count++
		}
	}
	return count
}

func follow(load record.Load, trials []trial, length float64, most int) []CoursePoint {
	requests, sumNS, tookNS := make([]float64, most), make([]float64, most), make([]float64, most)
	for _, t := range trials {
		// The last interval ends with the trial, and with a request: its rate is too high.
		for _, i := range t.Intervals[:max(0, len(t.Intervals)-1)] {
			place := int((float64(i.StartNS) + float64(i.TookNS)/2) / length * float64(most))
			if i.StartNS < 0 || place >= most || float64(i.StartNS+i.TookNS) > length && load.Model != "ramp" && load.Model != "sustained" {
				continue // warm-up, or after the schedule's end, or clients that end
			}
			requests[place] += float64(i.Requests)
			sumNS[place] += float64(i.SumNS)
			tookNS[place] += float64(i.TookNS)
		}
	}
	var course []CoursePoint
	for place := range most {
		if tookNS[place] == 0 {
			continue
		}
		share := (float64(place) + 0.5) / float64(most)
		point := CoursePoint{Seconds: short(share * length / 1e9), Throughput: short(requests[place] / tookNS[place] * 1e9)}
		if from := load.RatePerSecond; from > 0 {
			point.Offered = new(short(from + share*(cmp.Or(load.RampTo, from)-from)))
		}
		if requests[place] > 0 {
			point.MeanUS = new(short(sumNS[place] / requests[place] / 1e3))
		}
		course = append(course, point)
	}
	return course
}

// short has four digits of a figure: a page has thousands of these points, to be drawn.
func short(value float64) float64 {
	if value == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*unit) / unit
}

// drainOf is how long a burst took until its last answer, in microseconds: its
// window ends with that. It is nil for other loads.
func drainOf(cell record.Cell, trials []trial) *Figure {
	if cell.Load.Burst == 0 {
		return nil
	}
	return new(over(trials, func(t trial) float64 { return float64(t.WindowNS) / 1e3 }))
}
