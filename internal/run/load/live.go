package load

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

// liveSpan is the number of reports that recent figures cover: two seconds.
const liveSpan = 8

const (
	// liveParts is the number of buckets in an octave.
	liveParts = 8
	// liveUnit is the width of the buckets from 1 to 2 µs.
	liveUnit = int64(live.ShortestBin) / liveParts
	// One bucket is below the octaves, and one above.
	liveBuckets = 1 + live.Octaves*liveParts + 1
)

// liveBucket returns the bucket of a time, which includes its upper bound.
func liveBucket(ns int64) int {
	units := uint64(max(0, ns-1)) / uint64(liveUnit)
	if units < liveParts {
		return 0
	}
	octave := bits.Len64(units) - bits.Len64(liveParts)
	part := int(units>>octave) - liveParts
	return min(1+octave*liveParts+part, liveBuckets-1)
}

// liveUpTo returns the upper bound of a bucket, except the last.
func liveUpTo(bucket int) int64 {
	if bucket == 0 {
		return int64(live.ShortestBin)
	}
	octave, part := (bucket-1)/liveParts, (bucket-1)%liveParts
	return int64(liveParts+part+1) << octave * liveUnit
}

// liveCounts holds the counts of one client. It alone writes them, except the maximum, which the
// controller resets; so no lock is needed, and a call costs three stores.
type liveCounts struct {
	started atomic.Int64
	sum     atomic.Int64 // ns
	failed  atomic.Int64
	most    atomic.Int64 // the longest in ns, since the controller reset it
	buckets [liveBuckets]atomic.Int64

	guard    sync.Mutex // guards failures; only failed calls take it
	failures map[record.ErrorCount]int64

	_ [64]byte
}

const mostLiveFailures = 32

func (l *liveCounts) begins() { l.started.Store(l.started.Load() + 1) }

func (l *liveCounts) ends(response int64) {
	l.sum.Store(l.sum.Load() + response)
	if response > l.most.Load() {
		l.most.Store(response)
	}
	bucket := &l.buckets[liveBucket(response)]
	bucket.Store(bucket.Load() + 1)
}

func (l *liveCounts) fails(kind record.ErrorCount) {
	l.failed.Store(l.failed.Load() + 1)
	l.guard.Lock()
	defer l.guard.Unlock()
	if l.failures == nil {
		l.failures = map[record.ErrorCount]int64{}
	}
	if _, known := l.failures[kind]; !known && len(l.failures) >= mostLiveFailures {
		kind = record.ErrorCount{Class: "other"}
	}
	l.failures[kind]++
}

type liveSums struct {
	at int64
	live.Total
	most    int64 // the longest since the previous sums
	buckets [liveBuckets]int64
}

// liveFigures turns the clients' counts into the figures that a live view shows.
type liveFigures struct {
	recent []*liveSums // at most liveSpan+1, the oldest first
}

// look adds up the counts of all clients and returns what to show.
func (f *liveFigures) look(now int64, clients []*liveCounts) *live.Calls {
	sums, shown := &liveSums{at: now}, &live.Calls{}
	failures := map[record.ErrorCount]int64{}
	for _, one := range clients {
		shown.InFlight += sums.add(one)
		if one.failed.Load() > 0 {
			one.addFailures(failures)
		}
	}
	if len(f.recent) > liveSpan {
		f.recent = append(f.recent[:0], f.recent[1:]...)
	}
	if len(f.recent) > 0 {
		showRecent(shown, f.recent, sums)
	}
	f.recent = append(f.recent, sums)
	shown.Total, shown.Histogram = sums.Total, sums.histogram()
	for kind, count := range failures {
		kind.Count = count
		shown.Failures = append(shown.Failures, kind)
	}
	slices.SortFunc(shown.Failures, func(a, b record.ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Class, b.Class))
	})
	return shown
}

// add adds a client's counts, and returns how many of its calls are in flight.
func (s *liveSums) add(l *liveCounts) (inFlight int64) {
	started, ended := l.started.Load(), int64(0)
	for i := range l.buckets {
		n := l.buckets[i].Load()
		s.buckets[i] += n
		ended += n
	}
	s.Ended += ended
	s.Failed += l.failed.Load()
	s.SumNS += l.sum.Load()
	s.most = max(s.most, l.most.Swap(0))
	return max(0, started-ended) // a call may have ended since started was read
}

func (l *liveCounts) addFailures(to map[record.ErrorCount]int64) {
	l.guard.Lock()
	defer l.guard.Unlock()
	for kind, count := range l.failures {
		to[kind] += count
	}
}

// showRecent fills in the counts since the oldest of the earlier sums.
func showRecent(l *live.Calls, before []*liveSums, now *liveSums) {
	oldest, most := before[0], now.most
	for _, s := range before[1:] {
		most = max(most, s.most)
	}
	l.SpanNS = now.at - oldest.at
	l.Ended, l.Failed = now.Ended-oldest.Ended, now.Failed-oldest.Failed
	if l.Ended == 0 {
		return
	}
	l.MaxNS = most
	var buckets [liveBuckets]int64
	for i := range buckets {
		buckets[i] = now.buckets[i] - oldest.buckets[i]
	}
	quantile := func(q float64) int64 { return min(most, quantileOf(buckets[:], l.Ended, q)) }
	l.P50NS, l.P90NS, l.P99NS = quantile(0.5), quantile(0.9), quantile(0.99)
}

func quantileOf(buckets []int64, count int64, q float64) int64 {
	left := max(1, int64(q*float64(count)+0.5))
	for i, n := range buckets {
		if left -= n; left > 0 {
			continue
		}
		switch i {
		case 0:
			return liveUpTo(0)
		case liveBuckets - 1:
			return int64(live.LongestBin)
		}
		return (liveUpTo(i-1) + liveUpTo(i)) / 2
	}
	return 0
}

// histogram returns one bin per octave.
func (s *liveSums) histogram() []live.Bin {
	var bins []live.Bin
	add := func(upToNS int64, counts []int64) {
		bin := live.Bin{UpToNS: upToNS}
		for _, n := range counts {
			bin.Count += n
		}
		bins = append(bins, bin)
	}
	add(int64(live.ShortestBin), s.buckets[:1])
	for octave := range live.Octaves {
		first := 1 + octave*liveParts
		add(int64(live.ShortestBin)<<(octave+1), s.buckets[first:first+liveParts])
	}
	add(0, s.buckets[liveBuckets-1:])
	empty := func(b live.Bin) bool { return b.Count == 0 }
	for len(bins) > 0 && empty(bins[0]) {
		bins = bins[1:]
	}
	for len(bins) > 0 && empty(bins[len(bins)-1]) {
		bins = bins[:len(bins)-1]
	}
	return bins
}

// Intervals asks for the figures of calls in one stretch of time after another. Plans that share
// an Intervals share the instants of its edges, as a separate warm-up and the load after it do.
type Intervals struct {
	Every  time.Duration
	Report func(Interval) // called from the goroutine that controls the load

	// origin is the instant of the first plan's first call. Edges are multiples of Every after it.
	origin int64
	known  bool
}

// An Interval is a stretch of the load, also of its warm-up and drain. Each call counts in the
// interval in which it ended.
type Interval struct {
	StartNS, TookNS int64
	Failed          int64 // one of them may be among those that ended in the interval before
	// Responses holds the response times of calls that ended, pauses included.
	Responses *latency.Coarse
}

// intervalCounts holds the counts of one client, which alone writes them.
type intervalCounts struct {
	failed    atomic.Int64
	responses *latency.CoarseRecorder
	_         [64]byte
}

// ends counts a call, then its failure, so that failures never exceed ended calls.
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
	start, next int64 // begin and end of the current interval
}

// newIntervalReader reads clients that begin at an instant. It returns nil if asked is nil.
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
