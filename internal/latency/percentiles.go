package latency

import (
	"math"
	"time"
)

// Point is one point of a curve of latency by percentile.
type Point struct {
	Quantile float64       `json:"q"`
	Value    time.Duration `json:"value_ns"`
}

// curveNines limits the curve: no trial has samples beyond 99.999999 %.
const curveNines = 8

// Percentiles returns the curve at 0, 10, … 90, 91, … 99, 99.1 % and so on: nine
// points a decade of the usual logarithmic axis. It goes as far as there are samples
// and ends with the exact maximum; it has at most 74 points. An empty histogram has
// none.
func (h *Histogram) Percentiles() []Point {
	if h.count == 0 {
		return nil
	}
	var qs []float64
	for nines := range curveNines {
		for tenths := range 9 {
			beyond := float64(10-tenths) / math.Pow10(nines+1)
			if beyond*float64(h.count) >= 1 {
				qs = append(qs, 1-beyond)
			}
		}
	}
	qs = append(qs, 1)
	points := make([]Point, len(qs))
	for i, value := range h.quantiles(qs) {
		points[i] = Point{Quantile: qs[i], Value: value}
	}
	return points
}
