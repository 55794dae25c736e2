package load

import (
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/latency"
)

// Intervals asks for the figures of calls in one stretch of time after another. Plans that share
// an Intervals share the instants of its edges, as a separate warm-up and the load after it do.
type Intervals struct {
	Every  time.Duration
	Report func(Interval) // called from the goroutine that controls the load

	// origin is the instant of the first plan's first call. Edges are multiples of Every
	// after it.
	origin int64
	known  bool
}

// An Interval is a stretch of the load, also of its warm-up and drain. Each call counts in the
// interval in which it ended.
type Interval struct {
	StartNS, TookNS int64
	Failed          int64 // one of them may be among those that ended in the interval before
	// Responses holds the response times of calls that ended, with the pauses in them.
	Responses *latency.Coarse
}

// intervalCounts holds the counts of one client, which alone writes them.
type intervalCounts struct {
	failed    atomic.Int64
	responses *latency.CoarseRecorder
	_         [64]byte
}

// ends counts a call, and then whether it failed, so that nothing has failed that did not end.
func (i *intervalCounts) ends(response int64, err error) {
	i.responses.Record(response)
	if err != nil {
		i.failed.Store(i.failed.Load() + 1)
	}
}

// intervalReader cuts what the clients counted into intervals.
type intervalReader struct {
	asked       *Intervals
	clients     []*intervalCounts
	responses   *latency.CoarseReader
	failed      int64 // read so far
	start, next int64 // of the interval that lasts, and when it ends
}

// newIntervalReader reads clients that begin at an instant; nil if nobody asks for it.
func newIntervalReader(asked *Intervals, clients []*intervalCounts, began int64) *intervalReader {
	if asked == nil {
		return nil
	}
	if !asked.known {
		asked.origin, asked.known = began, true
	}
	r := &intervalReader{asked: asked, clients: clients, start: began}
	var recorders []*latency.CoarseRecorder
	for _, one := range clients {
		recorders = append(recorders, one.responses)
	}
	r.responses = latency.NewCoarseReader(recorders...)
	r.next = r.edgeAfter(began)
	return r
}

// edgeAfter returns the first edge after an instant.
func (r *intervalReader) edgeAfter(instant int64) int64 {
	every := int64(r.asked.Every)
	return r.asked.origin + ((instant-r.asked.origin)/every+1)*every
}

// look ends the interval if it is over.
func (r *intervalReader) look(now int64) {
	if r != nil && now >= r.next {
		r.cut(now)
	}
}

// cut ends the interval. Failures are read first: their calls are then among those that ended.
func (r *intervalReader) cut(now int64) {
	if r == nil || now <= r.start {
		return
	}
	failed := int64(0)
	for _, one := range r.clients {
		failed += one.failed.Load()
	}
	r.asked.Report(Interval{StartNS: r.start, TookNS: now - r.start, Failed: failed - r.failed, Responses: r.responses.Since()})
	r.failed, r.start, r.next = failed, now, r.edgeAfter(now)
}
