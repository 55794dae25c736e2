package load

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
)

// maxUncheckedWait is the time before an instant at which a client stops checking whether the
// window is over.
const maxUncheckedWait = 50 * time.Millisecond

// turnHandoverLead is the time before its own instant at which a client lets the next one wait for
// an arrival. Waking the next one can take 10 µs, which would make each send late.
const turnHandoverLead = 20 * time.Microsecond

// maxArrivals limits a schedule's memory: 8 bytes for each arrival.
const maxArrivals = 50_000_000

// schedule holds the intended instants of an open loop and gives each to the next
// free client. A fixed share of the rate per client would be worse: an arrival could
// then wait for its busy client while another client is idle.
type schedule struct {
	zero    int64 // instant of the first arrival
	gap     float64
	offsets []int64      // instants of arrivals, relative to zero; nil if the gaps are equal
	share   arrivalShare // which arrivals the plan sends; used only if the gaps are equal
	count   int64
	next    atomic.Int64

	// One client at a time waits for the next arrival. The other clients wait for their turn.
	mu    sync.Mutex
	taken bool // a client waits for the next arrival
	turn  sync.Cond
}

// newSchedule computes the arrivals within the given time that belong to the share.
func newSchedule(a Arrivals, length time.Duration, own arrivalShare) (*schedule, error) {
	s := &schedule{gap: 1e9 / a.RatePerSecond, share: own}
	s.turn.L = &s.mu
	expected := a.expected(length)
	if a.Spread && own.clients < own.of {
		s.share = own.spread()
		own = s.share
	}
	if own.expectedOwn(expected) > maxArrivals {
		return nil, fmt.Errorf("load: the schedule has %.0f arrivals (%.0f per second for %v), but the limit is %d: shorten the window or lower the rate",
			expected, expected/length.Seconds(), length, maxArrivals)
	}
	switch {
	case a.Burst > 0:
		s.gap, s.count = 0, own.ownArrivals(int64(a.Burst))
		return s, nil
	case !a.Poisson && len(a.Stages) == 0:
		s.count = own.ownArrivals(max(1, cmp.Or(int64(a.Total), int64(expected))))
		return s, nil
	}
	step, isOwn, left := func() float64 { return 1 }, own.ownsByTurn(), a.Total
	if a.Poisson {
		step, isOwn = a.gaps(length), own.ownsByDraw(a.Seed)
	}
	s.offsets = make([]int64, 0, int(own.expectedOwn(expected))+64)
	first := 0.5 // half a gap before the first arrival and after the last one
	if a.Poisson {
		first = step()
	}
	for arrived := first; ; arrived += step() {
		at := a.instantOfArrival(arrived)
		if left--; !(at < float64(length)) || left == -1 && a.Total > 0 {
			break
		}
		if isOwn() {
			s.offsets = append(s.offsets, int64(at))
		}
	}
	s.count = int64(len(s.offsets))
	return s, nil
}

// gaps returns a function that draws the gaps of a Poisson process, whose mean is 1. If the arrivals
// have a total, the gaps are scaled so that exactly as many arrivals are within the length: they are
// then distributed as those of a process that has this number by chance.
func (a *Arrivals) gaps(length time.Duration) func() float64 {
	fresh := func() *rand.Rand {
		return rand.New(rand.NewPCG(a.Seed, 0x6f70656e)) // the constant keeps it different from other uses of the seed
	}
	scale := 1.0
	if a.Total > 0 {
		sum, random := 0.0, fresh()
		for range a.Total + 1 { // the last gap ends with the length
			sum += random.ExpFloat64()
		}
		scale = a.RatePerSecond * length.Seconds() / sum
	}
	random := fresh()
	return func() float64 { return scale * random.ExpFloat64() }
}

// instantOfArrival returns the time, in nanoseconds from the first arrival, by which the given number
// of arrivals is expected. It is infinite after the last stage.
func (a *Arrivals) instantOfArrival(arrived float64) float64 {
	if len(a.Stages) == 0 {
		return arrived * 1e9 / a.RatePerSecond
	}
	before := 0.0
	for _, s := range a.Stages {
		in := s.Expected()
		if arrived <= in {
			// In a stage from a to b that lasts T, a·t + (b−a)·t²/2T arrivals are expected by t. Of the
			// two roots, this one is 0 for 0 arrivals.
			slope := (s.To - s.From) / s.Length.Seconds()
			return before + 1e9*2*arrived/(s.From+math.Sqrt(max(0, s.From*s.From+2*slope*arrived)))
		}
		arrived -= in
		before += float64(s.Length)
	}
	return math.Inf(1)
}

// awaitNext takes the next arrival and returns at its instant, with the CPU time that
// it spent busy-waiting. ok is false when the schedule or w is over.
//
// One client at a time waits for an arrival, and the others wait for their turn. If
// all clients waited for arrivals, all would spin just before. The runtime polls the
// network only when no goroutine is ready, so answers would be read milliseconds
// late. A client holds its turn only between calls.
func (s *schedule) awaitNext(_ int, w *window) (intended, spun int64, ok bool) {
	s.takeTurn()
	if i := s.next.Add(1) - 1; i < s.count {
		intended, spun, ok = s.waitFor(i, w)
	}
	s.endTurn()
	if ok {
		spun += int64(clock.Until(intended))
	}
	return intended, spun, ok
}

func (s *schedule) takeTurn() {
	s.mu.Lock()
	for s.taken {
		s.turn.Wait()
	}
	s.taken = true
	s.mu.Unlock()
}

func (s *schedule) endTurn() {
	s.mu.Lock()
	s.taken = false
	s.mu.Unlock()
	s.turn.Signal()
}

// waitFor waits until almost the arrival's instant, which a pause may postpone meanwhile.
// ok is false if the window is over more than maxUncheckedWait before the arrival.
func (s *schedule) waitFor(i int64, w *window) (intended, spun int64, ok bool) {
	for {
		intended = s.instantOf(i, w.bounds.Load())
		if intended <= clock.Now()+int64(maxUncheckedWait+turnHandoverLead) {
			return intended, int64(clock.Until(intended - int64(turnHandoverLead))), true
		}
		if w.over.Load() {
			return intended, 0, false
		}
		time.Sleep(maxUncheckedWait / 2)
	}
}

// instantOf returns the arrival's instant. A pause postpones arrivals due in it or later.
func (s *schedule) instantOf(i int64, b *windowBounds) int64 {
	instant := s.zero
	if s.offsets != nil {
		instant += s.offsets[i]
	} else {
		instant += int64(float64(s.share.arrivalNumber(i)) * s.gap)
	}
	for _, p := range b.pauses {
		switch {
		case instant < p.from:
			return instant
		case p.to == futureInstant:
			return futureInstant
		}
		instant += p.to - p.from
	}
	return instant
}

func (s *schedule) countDueBefore(instant int64, b *windowBounds) int64 {
	return int64(sort.Search(int(s.count), func(i int) bool { return s.instantOf(int64(i), b) >= instant }))
}

// endEarly ends the schedule early and returns how many arrivals of the window
// were not taken by a client.
func (s *schedule) endEarly(b *windowBounds) int64 {
	taken := s.next.Swap(math.MaxInt64 / 2)
	return max(0, s.countDueBefore(b.end, b)-max(taken, s.countDueBefore(b.begin, b)))
}

// An arrivalShare says which arrivals of a schedule belong to a plan: the arrivals of the clients
// numbered first to first+clients-1. of is the number of all clients.
type arrivalShare struct {
	first, clients, of int64
	// places holds the plan's arrivals among the first of ones, if the arrivals are spread.
	places []int64
}

// spread returns the share with another order of turns: each turn is the one after a golden section of
// all clients, so that neighbours have turns evenly far apart.
func (s arrivalShare) spread() arrivalShare {
	golden := max(1, int64(math.Round(float64(s.of)/math.Phi)))
	stride := golden
	for candidate := range int64(strideCandidates) {
		if unevenness(s.of, golden+candidate) < unevenness(s.of, stride) {
			stride = golden + candidate
		}
	}
	s.places = make([]int64, 0, s.clients)
	for turn := range s.of {
		if client := turn * stride % s.of; s.first <= client && client < s.first+s.clients {
			s.places = append(s.places, turn)
		}
	}
	return s
}

// strideCandidates is the number of strides that are compared. The first is next to the golden section.
const strideCandidates = 64

// unevenness returns how uneven turns of a stride are: the largest quotient of the continued fraction
// of/stride. It is infinite if some clients have no turn.
func unevenness(of, stride int64) int64 {
	most := int64(0)
	for stride > 0 {
		most = max(most, of/stride)
		of, stride = stride, of%stride
	}
	if of > 1 { // the greatest common divisor
		return math.MaxInt64
	}
	return most
}

func (p *Plan) share() arrivalShare {
	g := p.group()
	return arrivalShare{first: int64(g.First), clients: int64(len(p.Callers)), of: int64(g.Of)}
}

// arrivalNumber returns the number among all arrivals of the plan's arrival own, if clients take
// turns.
func (s arrivalShare) arrivalNumber(own int64) int64 {
	if s.places != nil {
		return own/s.clients*s.of + s.places[own%s.clients]
	}
	return own/s.clients*s.of + s.first + own%s.clients
}

// ownArrivals returns how many of all arrivals belong to the plan, if clients take turns.
func (s arrivalShare) ownArrivals(all int64) int64 {
	if s.places != nil {
		inRound, _ := slices.BinarySearch(s.places, all%s.of)
		return all/s.of*s.clients + int64(inRound)
	}
	return all/s.of*s.clients + min(max(all%s.of-s.first, 0), s.clients)
}

// expectedOwn returns how many of all arrivals will belong to the plan.
func (s arrivalShare) expectedOwn(all float64) float64 {
	return all * float64(s.clients) / float64(s.of)
}

// ownsByTurn returns a function that reports whether an arrival belongs to the plan, if clients
// take turns. It must be called once per arrival, in order.
func (s arrivalShare) ownsByTurn() func() bool {
	client := s.of - 1
	return func() bool {
		client = (client + 1) % s.of
		return s.first <= client && client < s.first+s.clients
	}
}

// ownsByDraw returns the same function for arrivals whose client is drawn: a Poisson process that
// is thinned out in this way is one, too.
func (s arrivalShare) ownsByDraw(seed uint64) func() bool {
	if s.clients == s.of {
		return func() bool { return true }
	}
	random := rand.New(rand.NewPCG(seed, 0x67726f7570)) // the constant keeps it different from other uses of the seed
	return func() bool {
		client := random.Int64N(s.of)
		return s.first <= client && client < s.first+s.clients
	}
}
