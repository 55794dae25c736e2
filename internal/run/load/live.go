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

// liveReports is the number of reports that recent figures cover: 8 reports take two seconds.
const liveReports = 8

const (
	// liveBucketsPerOctave is the number of buckets in an octave.
	liveBucketsPerOctave = 8
	// liveBucketWidth is the width of the buckets from 1 to 2 µs.
	liveBucketWidth = int64(live.ShortestBin) / liveBucketsPerOctave
	// One bucket holds all shorter times, and one bucket all longer times.
	liveBuckets = 1 + live.Doublings*liveBucketsPerOctave + 1
)

// liveBucket returns the index of the bucket for a time. A bucket includes its upper bound.
func liveBucket(ns int64) int {
	units := uint64(max(0, ns-1)) / uint64(liveBucketWidth)
	if units < liveBucketsPerOctave {
		return 0
	}
	octave := bits.Len64(units) - bits.Len64(liveBucketsPerOctave)
	part := int(units>>octave) - liveBucketsPerOctave
	return min(1+octave*liveBucketsPerOctave+part, liveBuckets-1)
}

// liveBucketLimit returns the upper bound of a bucket, except the last.
func liveBucketLimit(bucket int) int64 {
	if bucket == 0 {
		return int64(live.ShortestBin)
	}
	octave, part := (bucket-1)/liveBucketsPerOctave, (bucket-1)%liveBucketsPerOctave
	return int64(liveBucketsPerOctave+part+1) << octave * liveBucketWidth
}

// liveCounts holds the counts of one client. Only this client writes them, except the maximum,
// which the controller resets. So no lock is needed, and a call costs three stores.
type liveCounts struct {
	started atomic.Int64
	sum     atomic.Int64 // ns
	failed  atomic.Int64
	most    atomic.Int64 // the longest response time in ns since the controller's last reset
	buckets [liveBuckets]atomic.Int64

	guard    sync.Mutex // guards failures; only failed calls take it
	failures map[record.ErrorCount]int64

	_ [64]byte
}

const maxLiveFailureKinds = 32

func (l *liveCounts) countBegin() { l.started.Store(l.started.Load() + 1) }

func (l *liveCounts) countEnd(response int64) {
	l.sum.Store(l.sum.Load() + response)
	if response > l.most.Load() {
		l.most.Store(response)
	}
	bucket := &l.buckets[liveBucket(response)]
	bucket.Store(bucket.Load() + 1)
}

func (l *liveCounts) countFailure(kind record.ErrorCount) {
	l.failed.Store(l.failed.Load() + 1)
	l.guard.Lock()
	defer l.guard.Unlock()
	if l.failures == nil {
		l.failures = map[record.ErrorCount]int64{}
	}
	if _, known := l.failures[kind]; !known && len(l.failures) >= maxLiveFailureKinds {
		kind = record.ErrorCount{Class: "other"}
	}
	l.failures[kind]++
}

type liveSums struct {
	at int64
	live.Total
	most    int64 // the longest response time since the previous sums, ns
	buckets [liveBuckets]int64
}

// liveFigures turns the clients' counts into the figures that a live view shows.
type liveFigures struct {
	recent []*liveSums // at most liveReports+1, the oldest first
}

// update adds up the counts of all clients and returns the figures to show.
func (f *liveFigures) update(now int64, clients []*liveCounts) *live.Calls {
	sums, shown := &liveSums{at: now}, &live.Calls{}
	failures := map[record.ErrorCount]int64{}
	for _, one := range clients {
		shown.InFlight += sums.addClient(one)
		if one.failed.Load() > 0 {
			one.addFailuresTo(failures)
		}
	}
	if len(f.recent) > liveReports {
		f.recent = append(f.recent[:0], f.recent[1:]...)
	}
	if len(f.recent) > 0 {
		fillRecentFigures(shown, f.recent, sums)
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

// addClient adds a client's counts, and returns how many of its calls are in flight.
func (s *liveSums) addClient(l *liveCounts) (inFlight int64) {
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

func (l *liveCounts) addFailuresTo(to map[record.ErrorCount]int64) {
	l.guard.Lock()
	defer l.guard.Unlock()
	for kind, count := range l.failures {
		to[kind] += count
	}
}

// fillRecentFigures fills in the figures of the time since the oldest of the earlier sums.
func fillRecentFigures(l *live.Calls, before []*liveSums, now *liveSums) {
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
	quantile := func(q float64) int64 { return min(most, bucketQuantile(buckets[:], l.Ended, q)) }
	l.P50NS, l.P90NS, l.P99NS = quantile(0.5), quantile(0.9), quantile(0.99)
}

func bucketQuantile(buckets []int64, count int64, q float64) int64 {
	left := max(1, int64(q*float64(count)+0.5))
	for i, n := range buckets {
		if left -= n; left > 0 {
			continue
		}
		switch i {
		case 0:
			return liveBucketLimit(0)
		case liveBuckets - 1:
			return int64(live.LongestBin)
		}
		return (liveBucketLimit(i-1) + liveBucketLimit(i)) / 2
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
	for octave := range live.Doublings {
		first := 1 + octave*liveBucketsPerOctave
		add(int64(live.ShortestBin)<<(octave+1), s.buckets[first:first+liveBucketsPerOctave])
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

// Intervals asks for figures per interval of time. Plans that share an Intervals, such as a
// separate warm-up and the load after it, have the same interval edges.
type Intervals struct {
	Every  time.Duration
	Report func(Interval) // called from the goroutine that controls the load

	// origin is the instant of the first plan's first call. Edges are multiples of Every after it.
	origin int64
	known  bool
}

// An Interval holds the calls that ended in one interval of the load, warm-up and drain included.
type Interval struct {
	StartNS, TookNS int64
	Failed          int64 // a call that ended at an edge may be counted as failed one interval later
	// Responses holds the response times of the calls, pauses included.
	Responses *latency.CoarseHistogram
}

// intervalCounts holds the counts of one client. Only this client writes them.
type intervalCounts struct {
	failed    atomic.Int64
	responses *latency.CoarseRecorder
	_         [64]byte
}

// countEnd counts a call, then its failure, so that failures never exceed ended calls.
func (i *intervalCounts) countEnd(response int64, err error) {
	i.responses.Record(response)
	if err != nil {
		i.failed.Store(i.failed.Load() + 1)
	}
}

// intervalReader divides the clients' counts into intervals, and reports each interval.
type intervalReader struct {
	asked       *Intervals
	clients     []*intervalCounts
	responses   *latency.CoarseReader
	failed      int64 // failures that earlier intervals counted
	start, next int64 // begin and end of the current interval
}

// newIntervalReader returns a reader of clients that begin at the instant began. It returns nil
// if no intervals are asked for.
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

// cutIfOver reports the current interval if it is over.
func (r *intervalReader) cutIfOver(now int64) {
	if r != nil && now >= r.next {
		r.reportInterval(now)
	}
}

// reportInterval ends the interval and reports it. It reads failures first, so that an
// interval has no more failed calls than ended calls.
func (r *intervalReader) reportInterval(now int64) {
	if r == nil || now <= r.start {
		return
	}
	failed := int64(0)
	for _, one := range r.clients {
		failed += one.failed.Load()
	}
	r.asked.Report(Interval{StartNS: r.start, TookNS: now - r.start, Failed: failed - r.failed, Responses: r.responses.ReadNew()})
	r.failed, r.start, r.next = failed, now, r.edgeAfter(now)
}
