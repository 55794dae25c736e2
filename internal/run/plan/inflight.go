package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSweepPoints limits how many numbers of calls in flight a sweep measures.
const maxSweepPoints = 12

// ParseInFlight parses a list of numbers. For a range FIRST..LAST it chooses numbers in the range.
func ParseInFlight(text string) ([]int, error) {
	if first, last, isRange := strings.Cut(text, ".."); isRange {
		a, errA := strconv.Atoi(strings.TrimSpace(first))
		b, errB := strconv.Atoi(strings.TrimSpace(last))
		if errA != nil || errB != nil || a < 1 || b < a {
			return nil, fmt.Errorf("%q: want FIRST..LAST, as in 1..48", text)
		}
		return sweepPoints(a, b), nil
	}
	var points []int
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(one))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: want calls in flight from 1, as in 1..48 or 1,4,16", text)
		}
		if !slices.Contains(points, n) {
			points = append(points, n)
		}
	}
	slices.Sort(points)
	return points, nil
}

// sweepPoints returns first, its doublings and last. Above 8, where curves bend, it adds midpoints.
func sweepPoints(first, last int) []int {
	points := []int{first}
	for n := first; n < last; n *= 2 {
		points = append(points, n)
		if half := n + n/2; n >= 8 && half < last {
			points = append(points, half)
		}
	}
	points = append(points, last)
	slices.Sort(points)
	points = slices.Compact(points)
	for len(points) > maxSweepPoints {
		points = slices.Delete(points, 1, 2)
	}
	return points
}
