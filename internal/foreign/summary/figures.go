package summary

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
)

// Totals returns the distribution of calls without buckets. The mean is in nanoseconds.
func Totals(count int64, mean float64, shortest, longest int64) latency.Distribution {
	sum := mean * float64(count)
	if !(sum >= 0 && sum < math.MaxInt64) {
		sum = -1 // check will refuse it
	}
	return latency.Distribution{Count: count, Sum: int64(math.Round(sum)), Min: shortest, Max: longest}
}

// Nanoseconds converts a duration. It returns -1, which Formats.Read refuses, for a value that is
// none.
func Nanoseconds(value float64, unit time.Duration) int64 {
	value *= float64(unit)
	if !(value >= 0 && value < math.MaxInt64) {
		return -1
	}
	return int64(math.Round(value))
}

// Sort sorts percentiles, and removes duplicates such as med and p(50).
func Sort(all []latency.Percentile) []latency.Percentile {
	slices.SortFunc(all, func(a, b latency.Percentile) int {
		return cmp.Or(cmp.Compare(a.Quantile, b.Quantile), cmp.Compare(a.Duration, b.Duration))
	})
	return slices.Compact(all)
}

// SplitURL returns the address in a URL, and the path and query.
func SplitURL(text string) (target, path string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", text
	}
	return u.Host, cmp.Or(u.RequestURI(), "/")
}

// ClosedRemark says what the times of a closed loop leave out.
func ClosedRemark(tool string) string {
	return tool + " ran a closed loop: each client waited for its answer before it sent again, so requests that would have met a stall were never sent (coordinated omission)"
}

// PacedRemark says what the times of paced clients leave out.
func PacedRemark(tool string) string {
	return tool + " held a rate with clients that wait for their answers, and timed each call from its actual send: delays of calls before they were sent are in no figure (coordinated omission)"
}

// UnknownCall is the name of a call that the file does not name.
const UnknownCall = "untold"

// UnknownCallRemark says that the file does not name the call.
func UnknownCallRemark(tool string) string {
	return "the file does not say what " + tool + " called: files that are given together count as repeats"
}
