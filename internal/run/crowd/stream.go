package crowd

import (
	"sync"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

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

// shownSlots is the number of slots that recent figures are of.
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
