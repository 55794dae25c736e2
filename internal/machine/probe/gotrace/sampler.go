package gotrace

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime/trace"
	"strconv"
	"sync"
	"sync/atomic"

	"wirelab.dev/internal/base/clock"
)

const (
	// wantedMarks is the usual number of marked calls in a turn. A pass of a second has three whole
	// turns or more, so that the slowest 1 % of three passes are some 50 calls.
	wantedMarks = 768
	// maxMarks limits the marks of a turn if calls come much faster than before. The rest of the turn
	// then has none.
	maxMarks = 4 * wantedMarks
	// chanceCategory is the category of the event that says with which chance calls of a turn are marked.
	chanceCategory = "wirelab chance of a mark"
)

// callNames holds the names of regions. More calls must not be in flight at a time.
var callNames = func() (names [MaxInFlight]string) {
	for i := range names {
		names[i] = CallRegion + strconv.Itoa(i)
	}
	return names
}()

// turnNow is the number of the turn in which this process traces itself, or 0.
var turnNow atomic.Int64

// A Sampler chooses the calls that are marked while this process traces itself. In a turn, each call
// has the same chance, whatever happened to other calls: the sample is unbiased, also where calls
// come in patterns. The chance follows from the rate of all calls since the turn before. It may be
// used concurrently.
type Sampler struct {
	calls  atomic.Int64
	marks  atomic.Int64
	turn   atomic.Int64  // the last turn with a call
	before atomic.Int64  // the number of marks at its beginning
	chance atomic.Uint64 // bits of a float64
	fixed  bool          // the chance stays, because the process traces itself the whole time

	guard       sync.Mutex // of all changes at the beginning of a turn
	since, told int64      // the beginning of the turn, and the number of calls by then
}

// NewSampler returns a sampler with a fixed chance, or one that finds its own for each turn if chance is 0.
func NewSampler(chance float64) *Sampler {
	s := &Sampler{fixed: chance > 0}
	s.chance.Store(math.Float64bits(chance))
	return s
}

// ChanceOf returns the chance with which about as many calls of a window are marked as of a few turns.
func ChanceOf(callsInWindow float64) float64 { return min(1, maxMarks/max(1, callsInWindow)) }

// Choose counts a call that begins now. If the call is chosen, Choose returns its number, which no
// other call in flight has.
func (s *Sampler) Choose() (call int, chosen bool) {
	calls, turn := s.calls.Add(1), turnNow.Load()
	if turn == 0 {
		return 0, false
	}
	if s.turn.Load() != turn {
		s.beginTurn(turn, clock.Now(), calls)
	}
	chance := math.Float64frombits(s.chance.Load())
	if chance < 1 && rand.Float64() >= chance {
		return 0, false
	}
	before := s.before.Load()
	if !s.fixed && s.marks.Load()-before >= maxMarks {
		return 0, false
	}
	mark := s.marks.Add(1)
	if mark == before+1 {
		trace.Log(context.Background(), chanceCategory, strconv.FormatFloat(chance, 'g', -1, 64))
	}
	return int(mark % MaxInFlight), true
}

func (s *Sampler) beginTurn(turn, now, calls int64) {
	s.guard.Lock()
	defer s.guard.Unlock()
	if s.turn.Load() >= turn {
		return
	}
	chance := math.Float64frombits(s.chance.Load())
	// A time shorter than a cycle gives no rate.
	inTurn := float64(calls-s.told) * float64(turnNS) / float64(max(cycleNS, now-s.since))
	// Small changes of the rate leave the chance as it is, because calls of turns with a greater chance
	// are thinned out later.
	if marks := inTurn * chance; s.fixed {
		// nothing to find
	} else if chance == 0 || marks < wantedMarks/2 && chance < 1 || marks > wantedMarks*2 {
		s.chance.Store(math.Float64bits(min(1, wantedMarks/max(1, inTurn))))
	}
	s.since, s.told = now, calls
	s.before.Store(s.marks.Load())
	s.turn.Store(turn)
}

// BeginRegion begins the region of a call, or of its handler. The caller must end it.
func BeginRegion(call int) *trace.Region {
	return trace.StartRegion(context.Background(), callNames[call%MaxInFlight])
}
