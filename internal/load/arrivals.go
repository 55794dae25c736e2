package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/clock"
)

// patience is the longest that a client sleeps towards an instant without
// looking whether it is still wanted.
const patience = 50 * time.Millisecond

// handover is how long before its instant a client lets the next one take its
// place: waking it can cost 10 µs, which would otherwise make each send late.
const handover = 20 * time.Microsecond

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

	// The head of the line: the client that waits for the next arrival.
	guard    sync.Mutex
	occupied bool
	line     sync.Cond
}

// newSchedule lays out the arrivals of the given length of time.
func newSchedule(a Arrivals, length time.Duration) (*schedule, error) {
	s := &schedule{gap: 1e9 / a.RatePerSecond}
	s.line.L = &s.guard
	expected := a.expected(length)
	if expected > maxArrivals {
		return nil, fmt.Errorf("load: %.0f arrivals (%.0f a second for %v): at most %d; shorten the window or lower the rate",
			expected, a.RatePerSecond, length, maxArrivals)
	}
	switch {
	case a.Burst > 0:
		s.gap, s.count = 0, int64(a.Burst)
		return s, nil
	case !a.Poisson && a.RampTo == 0:
		s.count = max(1, int64(expected))
		return s, nil
	}
	step := func() float64 { return 1 }
	if a.Poisson {
		random := rand.New(rand.NewPCG(a.Seed, 0x6f70656e)) // the second word only keeps it apart from other uses of the seed
		step = random.ExpFloat64
	}
	s.offsets = make([]int64, 0, int(expected)+64)
	for arrived := step(); ; arrived += step() {
		at := a.instant(arrived, length)
		if !(at < float64(length)) {
			break
		}
		s.offsets = append(s.offsets, int64(at))
	}
	s.count = int64(len(s.offsets))
	return s, nil
}

// instant is when, in nanoseconds from the first, that many arrivals are
// expected to have come. In a ramp they are a·t + (b−a)·t²/2T.
func (a *Arrivals) instant(arrived float64, length time.Duration) float64 {
	if a.RampTo == 0 {
		return arrived * 1e9 / a.RatePerSecond
	}
	slope := (a.RampTo - a.RatePerSecond) / length.Seconds()
	if slope == 0 {
		return arrived * 1e9 / a.RatePerSecond
	}
	// The root that is 0 for none; NaN beyond a falling ramp's last arrival.
	return 1e9 * 2 * arrived / (a.RatePerSecond + math.Sqrt(a.RatePerSecond*a.RatePerSecond+2*slope*arrived))
}

// await takes the next arrival and returns at its instant, with the CPU time
// that waiting burned. It is false when the schedule is over or w is.
//
// One client at a time waits, the others stand in line behind it. If each of
// them waited, all would spin for the last stretch, and the runtime asks the
// network poller only where no goroutine is ready: answers to calls in flight
// would lie unread for milliseconds, and be measured late. This lock is held
// between calls, never during one.
func (s *schedule) await(w *window) (intended, spun int64, ok bool) {
	s.stepForward()
	if i := s.next.Add(1) - 1; i < s.count {
		intended = s.at(i)
		spun, ok = sleepUntil(intended-int64(handover), w)
	}
	s.stepAside()
	if ok {
		spun += int64(clock.Until(intended))
	}
	return intended, spun, ok
}

func (s *schedule) stepForward() {
	s.guard.Lock()
	for s.occupied {
		s.line.Wait()
	}
	s.occupied = true
	s.guard.Unlock()
}

func (s *schedule) stepAside() {
	s.guard.Lock()
	s.occupied = false
	s.guard.Unlock()
	s.line.Signal()
}

// sleepUntil is false where w is over before the instant has come near: what is
// due is sent in any case, since it counts as taken.
func sleepUntil(instant int64, w *window) (spun int64, wanted bool) {
	for instant-clock.Now() > int64(patience) {
		if w.over.Load() {
			return 0, false
		}
		time.Sleep(patience / 2)
	}
	return int64(clock.Until(instant)), true
}

func (s *schedule) at(i int64) int64 {
	if s.offsets != nil {
		return s.zero + s.offsets[i]
	}
	return s.zero + int64(float64(i)*s.gap)
}

// before counts the arrivals that are due before the instant.
func (s *schedule) before(instant int64) int64 {
	return int64(sort.Search(int(s.count), func(i int) bool { return s.at(int64(i)) >= instant }))
}

// abandon ends the schedule early and returns how many arrivals of [begin, end)
// nobody had taken.
func (s *schedule) abandon(begin, end int64) int64 {
	taken := s.next.Swap(math.MaxInt64 / 2)
	return max(0, s.before(end)-max(taken, s.before(begin)))
}
