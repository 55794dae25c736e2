package probe

import (
	"fmt"
	"math"
	"time"
)

// Waits is a histogram of waiting times: bucket 0 holds those under 256 ns,
// then two buckets an octave, the last for 4.3 s and more. A quantile of it is
// right to a quarter of its value.
type Waits [waitBuckets]int64

const waitBuckets = 50

// waitBound returns the lower bound of a bucket. The bounds are a subset of the Go
// runtime's, so that each of its buckets falls into one of these.
func waitBound(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	const step = 128 * time.Nanosecond
	octave, half := (bucket-1)/2, (bucket-1)%2
	return step * time.Duration((2+half)<<octave)
}

// waitBucket finds the bucket of a wait.
func waitBucket(wait time.Duration) int {
	bucket := 0
	for bucket+1 < waitBuckets && waitBound(bucket+1) <= wait {
		bucket++
	}
	return bucket
}

// Total counts the waits.
func (w Waits) Total() int64 {
	var total int64
	for _, count := range w {
		total += count
	}
	return total
}

// Quantile returns the wait that a share q, 0 to 1, of all waits is below, assuming
// that they spread evenly within a bucket; false if there are none.
func (w Waits) Quantile(q float64) (time.Duration, bool) {
	total := w.Total()
	if total <= 0 {
		return 0, false
	}
	rank := math.Max(0, math.Min(1, q)) * float64(total)
	last := 0
	for bucket, count := range w {
		if count == 0 {
			continue
		}
		last = bucket
		if rank > float64(count) {
			rank -= float64(count)
			continue
		}
		if bucket == waitBuckets-1 {
			break
		}
		low, high := waitBound(bucket), waitBound(bucket+1)
		return low + time.Duration(rank/float64(count)*float64(high-low)), true
	}
	return waitBound(last), true
}

func waitColumns() []column {
	list := make([]column, waitBuckets)
	for bucket := range list {
		list[bucket] = column{
			name: fmt.Sprintf("run_wait_%d", waitBound(bucket).Nanoseconds()),
			of:   func(u *Usage) *int64 { return &u.Go.RunWait[bucket] },
		}
	}
	return list
}
