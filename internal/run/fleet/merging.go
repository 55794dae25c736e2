package fleet

import (
	"sync"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

// merging makes one course of what several clients tell of theirs while they run. It is for a
// look: what is lost on the way comes with the results.
type merging struct {
	guard  sync.Mutex
	first  int64 // the begin of the first interval
	begun  bool
	slots  map[int64]*slot
	newest int64
	total  live.Total
}

// slot is what was told of a stretch of time.
type slot struct {
	times         *latency.Coarse
	ended, failed int64
	tookNS        int64 // the longest of the intervals
}

// mostSlots bounds what is kept: a stretch that old gets no intervals any more.
const mostSlots = 16

func newMerging() *merging { return &merging{slots: map[int64]*slot{}} }

// add takes in an interval, whose begin is on this machine's clock.
func (m *merging) add(i worker.Interval) {
	times, err := latency.DecodeCoarse(i.Histogram)
	if err != nil && i.Histogram != "" {
		return // its client's result will say what is wrong
	}
	m.guard.Lock()
	defer m.guard.Unlock()
	if !m.begun {
		m.begun, m.first = true, i.StartNS
	}
	at := (i.StartNS + i.TookNS/2 - m.first) / int64(intervalLength)
	if at <= m.newest-mostSlots {
		return
	}
	m.newest = max(m.newest, at)
	s := m.slots[at]
	if s == nil {
		s = &slot{times: latency.NewCoarse()}
		m.slots[at] = s
		delete(m.slots, at-mostSlots)
	}
	s.ended += i.Ended
	s.failed += i.Failed
	s.tookNS = max(s.tookNS, i.TookNS)
	m.total.Ended += i.Ended
	m.total.Failed += i.Failed
	if times != nil {
		s.times.Add(times)
	}
}

// shownSlots is over how many stretches a look goes.
const shownSlots = 2

// live is a look at the stretches before the newest, which is not whole yet; nil: there are
// none.
func (m *merging) live() *live.Calls {
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
