package matrix

import (
	"testing"

	"wirelab.dev/internal/data/record"
)

// A stretch around the window's begin has calls of the warm-up, so it counts for neither. The stretch
// around the window's end has only measured calls.
func TestCourseHasNoCallsOfTheWarmUp(t *testing.T) {
	slow, usual := int64(105e6), int64(20e6)
	r := &record.Record{}
	r.Course = &record.Course{
		BeginNS: -260e6, StretchNS: 100e6, // the third stretch is from -60 ms to 40 ms
		Calls: []int64{100, 100, 100, 100, 100, 100}, Failed: make([]int64, 6),
		ResponseMaxNS: []*int64{&usual, &usual, &slow, &usual, &usual, &usual},
	}
	for at := int64(-250e6); at < 320e6; at += 10e6 {
		r.Intervals = append(r.Intervals, record.Interval{StartNS: at, TookNS: 10e6, Requests: 10, SumNS: 1e6})
	}
	l := timeline{each: 100e6, before: 2, count: 5, within: true, detailed: true} // a window of 300 ms
	points := l.points(record.Load{Model: "closed"}, []Trial{{Record: r}})
	if len(points) != 5 {
		t.Fatalf("%d points", len(points))
	}
	var maxima []float64
	for _, p := range points {
		if p.Seconds > 0 && p.ResponseMaxUS != nil {
			maxima = append(maxima, *p.ResponseMaxUS)
		}
	}
	if len(maxima) != 3 || maxima[0] != 20_000 {
		t.Errorf("the window's maxima are %v, want three of 20,000 µs", maxima)
	}
}
