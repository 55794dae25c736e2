package crowd

import (
	"math"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

// A Tracker follows the progress of one or more clients as one. Their agents report it seldom, to
// keep the machine quiet.
type Tracker struct {
	// Settled is closed when the warm-up of each client may end.
	Settled chan struct{}
	// Stream takes the intervals of the clients.
	Stream *Stream

	window time.Duration // 0: requests bound it

	guard   sync.Mutex // guards the fields below
	latest  []live.Progress
	opensNS int64 // instant at which the window opens
}

// NewTracker returns a tracker of clients whose window is that long, or 0 if requests bound it.
func NewTracker(clients int, windowNS int64) *Tracker {
	return &Tracker{
		window: time.Duration(windowNS), Settled: make(chan struct{}), Stream: NewStream(),
		latest: make([]live.Progress, clients), opensNS: math.MaxInt64,
	}
}

// Report takes the progress of a client.
func (w *Tracker) Report(client int, p live.Progress) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.latest[client] = p
	if w.opensNS == math.MaxInt64 && len(w.latest) == 1 && !p.Warming { // a single client opens its window by itself
		w.opensNS = clock.Now() - int64(p.Fraction*float64(w.window))
	}
	if slices.ContainsFunc(w.latest, isUnsettled) {
		return
	}
	select {
	case <-w.Settled:
	default:
		close(w.Settled)
	}
}

func isUnsettled(p live.Progress) bool { return !p.Settled && p.Fraction == 0 }

// Unsettled returns the clients whose warm-up may not end yet.
func (w *Tracker) Unsettled() (clients []int) {
	w.guard.Lock()
	defer w.guard.Unlock()
	for i, p := range w.latest {
		if isUnsettled(p) {
			clients = append(clients, i)
		}
	}
	return clients
}

// Opens sets the instant at which the window opens.
func (w *Tracker) Opens(at int64) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.opensNS = at
}

const shownEvery = 250 * time.Millisecond

// Tell reports the progress of all clients as one, some times per second until stop. stop waits
// for the last report.
func (w *Tracker) Tell(report func(live.Progress)) (stop func()) {
	if report == nil {
		return func() {}
	}
	return worker.Every(shownEvery, func() { report(w.look(clock.Now())) })
}

// look sums up the progress of the clients.
func (w *Tracker) look(now int64) live.Progress {
	w.guard.Lock()
	defer w.guard.Unlock()
	all := live.Progress{Settled: true, Warming: now < w.opensNS, Live: w.Stream.live()}
	for _, one := range w.latest {
		all.Paused = all.Paused || one.Paused
		all.Settled = all.Settled && one.Settled
		all.Done += one.Done
		all.Fraction += one.Fraction / float64(len(w.latest))
	}
	if all.Live != nil {
		all.Done = max(all.Done, all.Live.Total.Ended)
	}
	if !all.Warming && w.window > 0 && !all.Paused {
		all.Fraction = max(all.Fraction, min(1, float64(now-w.opensNS)/float64(w.window)))
	}
	return all
}

// A Stream makes one course of the intervals that several clients report while they run. It is
// for a live view: an interval that is lost on the way comes with the results.
type Stream struct {
	guard  sync.Mutex
	first  int64 // the begin of the first interval
	begun  bool
	slots  map[int64]*slot
	newest int64
	total  live.Total
}

// NewStream returns a stream without intervals.
func NewStream() *Stream { return &Stream{slots: map[int64]*slot{}} }

// IntervalLength is the time between two intervals that a client is asked to report.
const IntervalLength = time.Second

// mostSlots bounds the memory: an older slot takes no more intervals.
const mostSlots = 16

// Add adds an interval, whose begin must be on this machine's clock. It ignores one whose
// histogram it cannot read: its client's result will say what is wrong.
func (m *Stream) Add(i worker.Interval) {
	m.guard.Lock()
	defer m.guard.Unlock()
	if !m.begun {
		m.begun, m.first = true, i.StartNS
	}
	at := slotAt(i, m.first, int64(IntervalLength))
	if at <= m.newest-mostSlots {
		return
	}
	s := m.slots[at]
	if s == nil {
		s = newSlot()
	}
	if s.add(i) != nil {
		return
	}
	m.slots[at], m.newest = s, max(m.newest, at)
	delete(m.slots, at-mostSlots)
	m.total.Ended += i.Ended
	m.total.Failed += i.Failed
}

// shownSlots is the number of slots that recent figures cover.
const shownSlots = 2

// live returns the recent figures and the totals. Recent are the slots before the newest, which
// is not complete yet. It returns nil if there are none.
func (m *Stream) live() *live.Calls {
	m.guard.Lock()
	defer m.guard.Unlock()
	all := latency.NewCoarse()
	shown := &live.Calls{Total: m.total, InFlight: live.UnknownInFlight}
	for back := range int64(shownSlots) {
		s := m.slots[m.newest-1-back]
		if s == nil {
			continue
		}
		shown.SpanNS += s.tookNS
		shown.Ended += s.ended
		shown.Failed += s.failed
		all.Add(s.times)
	}
	if shown.SpanNS == 0 {
		return nil
	}
	shown.P50NS, shown.P90NS, shown.P99NS, shown.MaxNS = int64(all.Quantile(0.5)), int64(all.Quantile(0.9)), int64(all.Quantile(0.99)), int64(all.Quantile(1))
	return shown
}
