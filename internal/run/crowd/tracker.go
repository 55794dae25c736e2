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

// A Tracker combines the progress of one or more clients. The clients' agents report rarely, since
// reports could disturb the measured machines.
type Tracker struct {
	// Settled is closed when every client is ready to end its warm-up.
	Settled chan struct{}
	// Stream merges the intervals that the clients report.
	Stream *IntervalStream

	window time.Duration // the length of the window; 0 means that only the clients know how much of it is over

	guard   sync.Mutex // guards the fields below
	latest  []live.Progress
	opensNS int64 // instant at which the window opens
}

// NewTracker returns a tracker for a number of clients. windowNS is the length of the window. It is
// 0 if a number of requests bounds the window, or if the window is made of slices.
func NewTracker(clients int, windowNS int64) *Tracker {
	return &Tracker{
		window: time.Duration(windowNS), Settled: make(chan struct{}), Stream: NewIntervalStream(),
		latest: make([]live.Progress, clients), opensNS: math.MaxInt64,
	}
}

// Report stores the latest progress of a client.
func (w *Tracker) Report(client int, p live.Progress) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.latest[client] = p
	// A single client opens its window by itself.
	if w.opensNS == math.MaxInt64 && len(w.latest) == 1 && !p.Warming {
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

// Unsettled returns the numbers of the clients that are not ready to end their warm-up.
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

// SetOpening sets the instant at which the window opens.
func (w *Tracker) SetOpening(at int64) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.opensNS = at
}

const reportPeriod = 250 * time.Millisecond

// ReportEvery reports the combined progress until stop is called. stop makes the last report.
func (w *Tracker) ReportEvery(report func(live.Progress)) (stop func()) {
	if report == nil {
		return func() {}
	}
	once := func() { report(w.sumProgress(clock.Now())) }
	end := worker.RunEvery(reportPeriod, once)
	return sync.OnceFunc(func() { end(); once() })
}

// sumProgress combines the latest progress of all clients.
func (w *Tracker) sumProgress(now int64) live.Progress {
	w.guard.Lock()
	defer w.guard.Unlock()
	all := live.Progress{Settled: true, Paused: true, Warming: now < w.opensNS, Live: w.Stream.recentCalls()}
	for _, one := range w.latest {
		all.Paused = all.Paused && one.Paused
		all.Settled = all.Settled && one.Settled
		all.MeanNS = max(all.MeanNS, one.MeanNS)
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

// An IntervalStream merges the intervals that several clients report while they run. Only a live
// view uses the stream, so it may lose intervals; the clients' results contain all intervals.
type IntervalStream struct {
	guard  sync.Mutex
	first  int64 // instant at which the first interval begins
	begun  bool
	slots  map[int64]*timeSlot
	newest int64
	total  live.Total
}

// NewIntervalStream returns a stream without intervals.
func NewIntervalStream() *IntervalStream { return &IntervalStream{slots: map[int64]*timeSlot{}} }

// IntervalLength is the length of the intervals that wirelab asks clients to report.
const IntervalLength = time.Second

// maxSlots bounds the number of slots in memory. The stream ignores intervals of older slots.
const maxSlots = 16

// Add adds an interval, whose StartNS must be on this machine's clock. It ignores an interval with
// an unreadable histogram: merging the client's result will report the error.
func (m *IntervalStream) Add(i worker.Interval) {
	m.guard.Lock()
	defer m.guard.Unlock()
	if !m.begun {
		m.begun, m.first = true, i.StartNS
	}
	at := slotAt(i, m.first, int64(IntervalLength))
	if at <= m.newest-maxSlots {
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
	delete(m.slots, at-maxSlots)
	m.total.Ended += i.Ended
	m.total.Failed += i.Failed
}

// recentSlots is the number of slots that recent figures cover.
const recentSlots = 2

// recentCalls returns the figures of the recent slots and the totals of all slots. It leaves out
// the newest slot, which is still incomplete. It returns nil if there is no other slot.
func (m *IntervalStream) recentCalls() *live.Calls {
	m.guard.Lock()
	defer m.guard.Unlock()
	all := latency.NewCoarseHistogram()
	shown := &live.Calls{Total: m.total, InFlight: live.UnknownInFlight}
	for back := range int64(recentSlots) {
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
