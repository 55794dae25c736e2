package foreign

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
)

// totals are of calls of which no buckets are known. The mean is in nanoseconds.
func totals(count int64, mean float64, shortest, longest int64) latency.Distribution {
	sum := mean * float64(count)
	if !(sum >= 0 && sum < math.MaxInt64) {
		sum = -1 // which check refuses
	}
	return latency.Distribution{Count: count, Sum: int64(math.Round(sum)), Min: shortest, Max: longest}
}

// nanoseconds is -1, which check refuses, of what is no duration.
func nanoseconds(value float64, unit time.Duration) int64 {
	value *= float64(unit)
	if !(value >= 0 && value < math.MaxInt64) {
		return -1
	}
	return int64(math.Round(value))
}

// inOrder sorts percentiles; of two that are the same, as med and p(50), one stays.
func inOrder(all []latency.Percentile) []latency.Percentile {
	slices.SortFunc(all, func(a, b latency.Percentile) int {
		return cmp.Or(cmp.Compare(a.Quantile, b.Quantile), cmp.Compare(a.Duration, b.Duration))
	})
	return slices.Compact(all)
}

// splitURL is the address, and what is called there.
func splitURL(text string) (target, path string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", text
	}
	return u.Host, cmp.Or(u.RequestURI(), "/")
}

func closedRemark(tool string) string {
	return tool + " ran a closed loop: each client waited for its answer before it sent again, so a stall keeps requests from being sent that would have met it (coordinated omission)"
}

func pacedRemark(tool string) string {
	return tool + " held a rate with clients that wait for their answers, and timed each call from its actual send: how long a slow server put calls off is in no figure (coordinated omission)"
}

// untold is the name of a call that the file does not name.
const untold = "untold"

func untoldCall(tool string) string {
	return "the file does not say what " + tool + " called: that files are repeats is taken from their being given together"
}
