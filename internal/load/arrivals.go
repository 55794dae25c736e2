package load

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxArrivals bounds a schedule's memory: 8 bytes an arrival.
const maxArrivals = 50_000_000

// schedule holds the intended instants of an open loop and hands each to the
// next client that is free. An arrival is thus never bound to a client that is
// busy while another idles, which slicing the rate among clients would do.
type schedule struct {
	zero    int64 // instant of the first arrival
	gap     float64
	offsets []int64 // from zero; nil where the gaps are equal
	count   int64
	next    atomic.Int64
}

// newSchedule lays out the arrivals of the given length of time.
func newSchedule(a Arrivals, length time.Duration) (*schedule, error) {
	s := &schedule{gap: 1e9 / a.RatePerSecond}
	expected := length.Seconds() * a.RatePerSecond
	if expected > maxArrivals {
		return nil, fmt.Errorf("load: %.0f arrivals (%.0f a second for %v): at most %d; shorten the window or lower the rate",
			expected, a.RatePerSecond, length, maxArrivals)
	}
	if !a.Poisson {
		s.count = max(1, int64(expected))
		return s, nil
	}
	random := rand.New(rand.NewPCG(a.Seed, 0x6f70656e)) // the second word only keeps it apart from other uses of the seed
	s.offsets = make([]int64, 0, int(expected)+64)
	for at := random.ExpFloat64() * s.gap; at < float64(length); at += random.ExpFloat64() * s.gap {
		s.offsets = append(s.offsets, int64(at))
	}
	s.count = int64(len(s.offsets))
	return s, nil
}

// take hands out the next arrival, or false when the schedule is over.
func (s *schedule) take() (instant int64, ok bool) {
	i := s.next.Add(1) - 1
	if i >= s.count {
		return 0, false
	}
	return s.at(i), true
}

func (s *schedule) at(i int64) int64 {
	if s.offsets != nil {
		return s.zero + s.offsets[i]
	}
	return s.zero + int64(float64(i)*s.gap)
}

// between counts the arrivals in [from, to).
func (s *schedule) between(from, to int64) int64 {
	first := func(instant int64) int64 {
		low, high := int64(0), s.count
		for low < high {
			if middle := (low + high) / 2; s.at(middle) < instant {
				low = middle + 1
			} else {
				high = middle
			}
		}
		return low
	}
	return first(to) - first(from)
}
