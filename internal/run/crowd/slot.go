package crowd

import (
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
)

// A slot holds the calls of one or more clients that ended in a stretch of time.
type slot struct {
	ended, failed int64
	tookNS        int64           // the longest of its intervals
	times         *latency.Coarse // of responses
}

func newSlot() *slot { return &slot{times: latency.NewCoarse()} }

// slotAt returns the number of the slot that has the middle of an interval. The slots are equally
// long and begin at first.
func slotAt(i worker.Interval, first, length int64) int64 {
	return (i.StartNS + i.TookNS/2 - first) / length
}

// add adds an interval, or nothing if its histogram cannot be read.
func (s *slot) add(i worker.Interval) error {
	if err := s.times.AddEncoded(i.Histogram); err != nil {
		return err
	}
	s.ended += i.Ended
	s.failed += i.Failed
	s.tookNS = max(s.tookNS, i.TookNS)
	return nil
}
