package latency

import "math"

// Recorder counts durations in one goroutine: Record takes no lock, allocates
// nothing and shares no cache line with other recorders. [Histogram.Add] must wait
// until that goroutine is done.
type Recorder struct {
	counts  []int64 // off the heap, indexed by bucketOf
	release func()
	totals

	_ [56]byte // fills 128 bytes, so that no neighbour shares a cache line
}

// totals are the exact figures of a recorder or histogram.
type totals struct {
	count   int64
	sum     int64
	min     int64 // MaxInt64 while count is 0
	max     int64 // -1 while count is 0
	clamped int64
}

func noTotals() totals { return totals{min: math.MaxInt64, max: -1} }

func (t *totals) add(other totals) {
	t.count += other.count
	t.sum += other.sum
	t.min = min(t.min, other.min)
	t.max = max(t.max, other.max)
	t.clamped += other.clamped
}

// NewRecorder returns an empty recorder. Its 216 KiB are outside the Go heap
// until Close; the kernel provides each page at its first use.
func NewRecorder() *Recorder {
	counts, release := offHeap[int64](bucketCount, false)
	return &Recorder{counts: counts, release: release, totals: noTotals()}
}

// Record counts a duration in nanoseconds. One above 60 s goes into the highest
// bucket and counts as clamped, but sum and maximum include its true value. A
// negative one, which a monotonic clock never gives, counts as 0.
func (r *Recorder) Record(ns int64) {
	ns = max(ns, 0)
	r.count++
	r.sum += ns
	r.min = min(r.min, ns)
	r.max = max(r.max, ns)
	if ns > highestValue {
		ns = highestValue
		r.clamped++
	}
	r.counts[bucketOf(ns)]++
}

// Count returns how many durations were recorded.
func (r *Recorder) Count() int64 { return r.count }

// Close frees the memory. The recorder must not be used afterwards; a second Close
// does nothing.
func (r *Recorder) Close() {
	if r.counts == nil {
		return
	}
	r.counts = nil
	r.release()
}
