package load

import (
	"math/rand/v2"
	"sync"

	"wirelab.dev/internal/base/clock"
)

// lanes give each arrival of a schedule to a certain group of clients, its lane. So each lane has a
// schedule of its own, and the lanes' arrivals alternate.
//
// One waiting client leads: it waits for the next arrival of all lanes, and wakes a client of the
// arrival's lane. If all waited for arrivals of their own, all would spin just before them.
type lanes struct {
	*schedule
	shared int        // clients per lane
	random *rand.Rand // draws the lane of each arrival; nil: the lanes take turns

	mu      sync.Mutex
	all     []lane
	leading bool
	over    bool
}

type lane struct {
	due     []int64 // numbers of arrivals that no client has taken yet
	waiting int     // clients that wait for an arrival, without the one that leads
	wake    sync.Cond
}

func newLanes(s *schedule, p *Plan) *lanes {
	shared := p.sharing()
	l := &lanes{schedule: s, shared: shared, all: make([]lane, (len(p.Callers)+shared-1)/shared)}
	for i := range l.all {
		l.all[i].wake.L = &l.mu
	}
	if p.Open.Poisson {
		l.random = rand.New(rand.NewPCG(p.Open.Seed, 0x6c616e6573)) // the constant keeps it different from other uses of the seed
	}
	return l
}

// awaitNext takes the next arrival of the client's lane, as schedule.awaitNext does.
func (l *lanes) awaitNext(client int, w *window) (intended, spun int64, ok bool) {
	own := &l.all[client/l.shared]
	l.mu.Lock()
	for len(own.due) == 0 && !l.over {
		if l.leading {
			own.waiting++
			own.wake.Wait()
			own.waiting--
			continue
		}
		spun += l.lead(own, w)
	}
	if len(own.due) == 0 || w.over.Load() {
		l.mu.Unlock()
		return 0, spun, false
	}
	arrival := own.due[0]
	own.due = own.due[1:]
	l.mu.Unlock()
	intended = l.instantOf(arrival, w.bounds.Load())
	return intended, spun + int64(clock.Until(intended)), true
}

// lead gives arrivals to their lanes until one is for the client's own, and then lets another
// client lead. The caller holds mu.
func (l *lanes) lead(own *lane, w *window) (spun int64) {
	l.leading = true
	for len(own.due) == 0 && !l.over {
		arrival := l.next.Load()
		if l.over = arrival >= l.count; l.over {
			break
		}
		l.mu.Unlock()
		_, more, ok := l.waitFor(arrival, w)
		l.mu.Lock()
		spun += more
		if l.over = l.over || !ok || w.over.Load() || !l.next.CompareAndSwap(arrival, arrival+1); l.over {
			break
		}
		to := &l.all[l.laneOf(arrival)]
		to.due = append(to.due, arrival)
		to.wake.Signal()
	}
	l.leading = false
	l.wakeNext()
	return spun
}

func (l *lanes) laneOf(arrival int64) int {
	if l.random != nil {
		return l.random.IntN(len(l.all))
	}
	return int(arrival % int64(len(l.all)))
}

// wakeNext lets another client lead: at best one that the next arrival is for. At the end it wakes
// all clients.
func (l *lanes) wakeNext() {
	first := int(l.next.Load() % int64(len(l.all)))
	for i := range l.all {
		one := &l.all[(first+i)%len(l.all)]
		switch {
		case l.over:
			one.wake.Broadcast()
		case one.waiting > 0:
			one.wake.Signal()
			return
		}
	}
}

// endEarly ends the schedule early and returns how many arrivals of the window no client took.
func (l *lanes) endEarly(b *windowBounds) int64 {
	unsent := l.schedule.endEarly(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for i := range l.all {
		for _, arrival := range l.all[i].due {
			if at := l.instantOf(arrival, b); b.begin <= at && at < b.end {
				unsent++
			}
		}
		l.all[i].due = nil
		l.all[i].wake.Broadcast()
	}
	return unsent
}

// arrivals give the clients of an open loop the instants of their requests.
type arrivals interface {
	awaitNext(client int, w *window) (intended, spun int64, ok bool)
	countDueBefore(instant int64, b *windowBounds) int64
	endEarly(b *windowBounds) int64
}

var _, _ arrivals = (*schedule)(nil), (*lanes)(nil)
