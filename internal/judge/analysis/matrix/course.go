package matrix

import (
	"math"
	"slices"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// A CoursePoint holds the figures of one interval of the window or the warm-up, over all valid
// trials. Older records have only rate and mean, and no warm-up.
type CoursePoint struct {
	Seconds     float64  `json:"seconds"`                           // middle of the interval, from the window's beginning; negative in warm-up
	Offered     *float64 `json:"offered_rps" jsonschema:"nullable"` // rate of the schedule; null for a load without a schedule
	Throughput  float64  `json:"throughput_rps"`
	MeanUS      *float64 `json:"mean_us" jsonschema:"nullable"`      // mean service time; null if no call ended
	P99US       *float64 `json:"p99_us" jsonschema:"nullable"`       // P99 of the service time, the median over trials; null if every trial has fewer than 100 calls in the interval
	ClientCores *float64 `json:"client_cores" jsonschema:"nullable"` // mean number of CPUs that the client used
	ServerCores *float64 `json:"server_cores" jsonschema:"nullable"` // mean number of CPUs that the server used
	ServicePoint
}

// A ServicePoint holds figures of an interval that only the page of a service shows, because other
// pages have thousands of points. Older records have none of these figures.
type ServicePoint struct {
	ResponseP50US *float64 `json:"response_p50_us,omitempty"` // P50 of the response time, the median over trials; absent if every trial has fewer than 10 calls in the interval
	ResponseP99US *float64 `json:"response_p99_us,omitempty"` // P99 of the response time, the median over trials; absent if every trial has fewer than 100 calls in the interval
	ResponseMaxUS *float64 `json:"response_max_us,omitempty"` // largest response time of all trials; absent if no call ended
	FailedShare   *float64 `json:"failed_share,omitempty"`    // failed share of the calls that ended; absent if none ended
}

const (
	// schedulePoints is the number of points for a load whose rate changes by a schedule.
	schedulePoints = 60
	// closedPoints and leastPoints are the largest and the smallest number of points for a steady
	// load. A page has these points for every cell.
	closedPoints, leastPoints = 30, 8
	// servicePoints is the largest number of points for a service. It is enough to show stalls of 0.1
	// s.
	servicePoints = 120
	// callsPerPoint is the least mean number of calls in a service's point. With fewer calls, a point
	// would show noise.
	callsPerPoint = 50
)

// courseOf returns how the figures change over warm-up and window. It returns nil for loads that
// send all requests at once, and for windows with too few intervals.
func courseOf(cell record.Cell, trials []Trial) []CoursePoint {
	detailed := cell.Kind().InDetail
	switch cell.Load.Model {
	case "ramp", "sustained":
		length := float64(cell.Load.DurationNS)
		if length <= 0 {
			return nil
		}
		return timeline{each: length / schedulePoints, count: schedulePoints, detailed: detailed}.points(cell.Load, trials)
	case "closed", "open":
		// Windows differ in length, so only the time that all trials cover is used.
		length, warmUp, most := math.Inf(1), math.Inf(1), closedPoints
		if detailed {
			most = servicePoints
		}
		for _, t := range trials {
			length, warmUp = min(length, float64(t.WindowNS)), min(warmUp, float64(t.WarmUp.TookNS))
			most = min(most, intervalsWithin(t.Intervals, t.WindowNS)/2)
			switch { // a detailed course may have shorter intervals than the record's course
			case detailed:
				most = min(most, max(closedPoints, int(t.Requests/callsPerPoint)))
			case t.Course != nil && t.Course.StretchNS > 0:
				most = min(most, int(t.WindowNS/t.Course.StretchNS))
			}
		}
		if most < leastPoints {
			return nil
		}
		each := length / float64(most)
		before := min(most, int(warmUp/each))
		return timeline{each: each, before: before, count: before + most, within: true, detailed: detailed}.points(cell.Load, trials)
	}
	return nil
}

func intervalsWithin(intervals []record.Interval, windowNS int64) (count int) {
	for _, i := range intervals {
		if i.StartNS >= 0 && i.StartNS+i.TookNS <= windowNS {
			count++
		}
	}
	return count
}

// A timeline divides time into equal intervals, some of them before the window.
type timeline struct {
	each          float64 // length of an interval, in ns
	before, count int
	within        bool // ignore times that end after the last interval
	detailed      bool // also set the figures that only services have
}

// intervalAt returns the interval that contains the middle of a time span. ok is false if none
// does.
func (l timeline) intervalAt(startNS, tookNS int64) (place int, ok bool) {
	place = l.placeOf(startNS, tookNS)
	if l.within && float64(startNS+tookNS) > l.each*float64(l.count-l.before) {
		return place, false
	}
	return place, place >= 0 && place < l.count
}

// placeOf returns the interval that contains the middle of a time span, which may be outside of all.
func (l timeline) placeOf(startNS, tookNS int64) int {
	return int(math.Floor((float64(startNS)+float64(tookNS)/2)/l.each)) + l.before
}

// An intervalSum adds up the figures of all trials in one interval of a timeline.
type intervalSum struct {
	requests, sumNS, tookNS float64
	p99NS                   []float64
	responseNS              [3][]float64 // P50, P99 and maximum of the response time, per trial
	ended, failed           float64      // calls that ended or failed, from the records' courses
	used                    [2]float64   // CPU time of client and server, in ns
	usedIn                  [2]float64   // measured time for the CPU times in used, in ns
}

func (l timeline) points(load record.Load, trials []Trial) []CoursePoint {
	all := make([]intervalSum, l.count)
	for _, t := range trials {
		// The last interval is left out: it ends with a request, so its rate would be too high.
		for _, i := range t.Intervals[:max(0, len(t.Intervals)-1)] {
			if place, ok := l.intervalAt(i.StartNS, i.TookNS); ok && (i.StartNS >= 0) == (place >= l.before) {
				all[place].requests += float64(i.Requests)
				all[place].sumNS += float64(i.SumNS)
				all[place].tookNS += float64(i.TookNS)
			}
		}
		if t.Course != nil {
			l.addCourse(t.Course, all)
		}
	}
	var points []CoursePoint
	for place := range all {
		if all[place].tookNS > 0 {
			points = append(points, l.point(load, place, &all[place]))
		}
	}
	return points
}

// addCourse adds one trial's course. In a damaged file, columns may differ in length.
func (l timeline) addCourse(from *record.Course, all []intervalSum) {
	for n := range from.Calls {
		start := from.BeginNS + int64(n)*from.StretchNS
		place := l.placeOf(start, from.StretchNS)
		// A stretch around the window's begin has calls of the warm-up, too.
		if mixed := start < 0 && start+from.StretchNS > 0; mixed || place < 0 || place >= l.count {
			continue
		}
		if n < len(from.P99NS) && from.P99NS[n] != nil {
			all[place].p99NS = append(all[place].p99NS, float64(*from.P99NS[n]))
		}
		for i, of := range [][]*int64{from.ResponseP50NS, from.ResponseP99NS, from.ResponseMaxNS} {
			if n < len(of) && of[n] != nil {
				all[place].responseNS[i] = append(all[place].responseNS[i], float64(*of[n]))
			}
		}
		if n < len(from.Failed) {
			all[place].ended += float64(from.Calls[n])
			all[place].failed += float64(from.Failed[n])
		}
		for end, used := range [][]int64{from.ClientCPUNS, from.ServerCPUNS} {
			if n < len(used) {
				all[place].used[end] += float64(used[n])
				all[place].usedIn[end] += float64(from.StretchNS)
			}
		}
	}
}

func (l timeline) point(load record.Load, place int, of *intervalSum) CoursePoint {
	seconds := (float64(place-l.before) + 0.5) * l.each / 1e9
	point := CoursePoint{Seconds: roundToFourDigits(seconds), Throughput: roundToFourDigits(of.requests / of.tookNS * 1e9)}
	if load.HighestRate() > 0 {
		point.Offered = new(roundToFourDigits(load.RateAt(time.Duration(seconds * 1e9))))
	}
	if of.requests > 0 {
		point.MeanUS = new(roundToFourDigits(of.sumNS / of.requests / 1e3))
	}
	if len(of.p99NS) > 0 {
		point.P99US = new(roundToFourDigits(stats.Median(of.p99NS) / 1e3))
	}
	if l.detailed {
		point.ServicePoint = of.servicePoint()
	}
	for end, cores := range []**float64{&point.ClientCores, &point.ServerCores} {
		if of.usedIn[end] > 0 {
			*cores = new(roundToFourDigits(of.used[end] / of.usedIn[end]))
		}
	}
	return point
}

func (s *intervalSum) servicePoint() (point ServicePoint) {
	known := func(times []float64, of func([]float64) float64) *float64 {
		if len(times) == 0 {
			return nil
		}
		return new(roundToFourDigits(of(times) / 1e3))
	}
	point.ResponseP50US = known(s.responseNS[0], stats.Median)
	point.ResponseP99US = known(s.responseNS[1], stats.Median)
	point.ResponseMaxUS = known(s.responseNS[2], slices.Max[[]float64])
	if s.ended > 0 {
		point.FailedShare = new(roundToFourDigits(s.failed / s.ended))
	}
	return point
}
