package analysis

import (
	"cmp"

	"wirelab.dev/internal/record"
)

// CoursePoint is a stretch of the window of a load on a schedule, over all
// valid trials.
type CoursePoint struct {
	Seconds    float64  `json:"seconds"`     // its middle, from the window's beginning
	Offered    float64  `json:"offered_rps"` // that the schedule has there
	Throughput float64  `json:"throughput_rps"`
	MeanUS     *float64 `json:"mean_us" jsonschema:"nullable"` // service time; null where nothing ended
}

// stretches is the number of points that a course has at most: enough to see a bend,
// and few enough for each to hold more than a request or two.
const stretches = 60

// courseOf follows a ramp or a sustained load through its window; nil for other
// loads, in which nothing is meant to change or everything happens at once.
func courseOf(cell record.Cell, trials []trial) []CoursePoint {
	length := float64(cell.Load.DurationNS)
	if cell.Load.Model != "ramp" && cell.Load.Model != "sustained" || length <= 0 {
		return nil
	}
	var requests, sumNS, tookNS [stretches]float64
	for _, t := range trials {
		for _, i := range t.Intervals {
			place := int((float64(i.StartNS) + float64(i.TookNS)/2) / length * stretches)
			if i.StartNS < 0 || place >= stretches {
				continue // warm-up, or after the schedule's end
			}
			requests[place] += float64(i.Requests)
			sumNS[place] += float64(i.SumNS)
			tookNS[place] += float64(i.TookNS)
		}
	}
	var course []CoursePoint
	for place := range stretches {
		if tookNS[place] == 0 {
			continue
		}
		share := (float64(place) + 0.5) / stretches
		from := cell.Load.RatePerSecond
		point := CoursePoint{
			Seconds:    share * length / 1e9,
			Offered:    from + share*(cmp.Or(cell.Load.RampTo, from)-from),
			Throughput: requests[place] / tookNS[place] * 1e9,
		}
		if requests[place] > 0 {
			point.MeanUS = new(sumNS[place] / requests[place] / 1e3)
		}
		course = append(course, point)
	}
	return course
}

// drainOf is how long a burst took until its last answer, in microseconds: its
// window ends with that. It is nil for other loads.
func drainOf(cell record.Cell, trials []trial) *Figure {
	if cell.Load.Burst == 0 {
		return nil
	}
	return new(over(trials, func(t trial) float64 { return float64(t.WindowNS) / 1e3 }))
}
