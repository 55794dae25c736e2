package probe

import (
	"fmt"
	"math"
	"time"
)

// A Usage is one reading of a process. [Usage.Since] and [Series.Between] return the difference
// of two readings: counters are subtracted, gauges keep their last value.
type Usage struct {
	// AtNS is the instant of the reading, of the end for a difference.
	AtNS int64 `json:"at_ns"`
	// UserNS and SystemNS are processor time, ended threads included.
	UserNS   int64 `json:"user_ns"`
	SystemNS int64 `json:"system_ns"`
	// RSSBytes, a gauge, is the resident memory.
	RSSBytes int64 `json:"rss_bytes"`
	// AnonBytes, a gauge, is RSSBytes without the pages of files: mostly the
	// program's text, which all its processes share.
	AnonBytes int64 `json:"anon_bytes"`
	// MaxRSSBytes, a gauge, is the peak of RSSBytes.
	MaxRSSBytes int64 `json:"max_rss_bytes"`
	// Threads is a gauge.
	Threads int64 `json:"threads"`
	// Sockets, a gauge, is the number of open sockets, listening ones included.
	// 0: unknown, as for other processes and before Linux 6.2. A worker between
	// its listen or connect and its end has at least one.
	Sockets             int64 `json:"sockets"`
	VoluntarySwitches   int64 `json:"voluntary_switches"`
	InvoluntarySwitches int64 `json:"involuntary_switches"`
	MinorFaults         int64 `json:"minor_faults"`
	MajorFaults         int64 `json:"major_faults"`
	// ThrottledNS and ThrottledPeriods count for how long and how often the process's
	// control groups were stopped because their quota was used up, on each CPU.
	ThrottledNS      int64 `json:"throttled_ns,omitempty"`
	ThrottledPeriods int64 `json:"throttled_periods,omitempty"`
	// SuspendedNS is the time that the machine slept.
	SuspendedNS int64   `json:"suspended_ns,omitempty"`
	Go          GoUsage `json:"go,omitzero"`
}

// A Window holds the differences between two instants, and the maximum of each gauge.
type Window struct {
	Usage
	// Most holds the maximum of each gauge within the window.
	Most Held `json:"most"`
	// StoppedNS is the longest time for which the process neither ran nor took the
	// readings that were due: something else stopped it.
	StoppedNS int64 `json:"stopped_ns,omitempty"`
}

// Held holds a process's gauges.
type Held struct {
	// RSSBytes is exact if the peak rose within the window, else the maximum of the readings.
	RSSBytes      int64 `json:"rss_bytes"`
	AnonBytes     int64 `json:"anon_bytes"`
	Threads       int64 `json:"threads"`
	Sockets       int64 `json:"sockets"`
	Goroutines    int64 `json:"goroutines"`
	HeapLiveBytes int64 `json:"heap_live_bytes"`
}

// GoUsage holds the Go runtime's own figures, which exist only for the process itself.
type GoUsage struct {
	// HeapLiveBytes, a gauge, is the memory that the last collection found in use.
	HeapLiveBytes int64 `json:"heap_live_bytes"`
	// Goroutines is a gauge.
	Goroutines int64 `json:"goroutines"`
	// AllocatedBytes and AllocatedObjects count heap allocations, small ones a span at a time.
	AllocatedBytes   int64 `json:"allocated_bytes"`
	AllocatedObjects int64 `json:"allocated_objects"`
	GCCycles         int64 `json:"gc_cycles"`
	// GCNS is the processor time of the collector, estimated at the end of each cycle.
	GCNS int64 `json:"gc_ns"`
	// GCAssistNS is the part of it that allocating goroutines spent.
	GCAssistNS int64 `json:"gc_assist_ns"`
	// GCPercent, a gauge, is GOGC: 100 by default, -1 for off. 0: unknown.
	GCPercent int64 `json:"gc_percent,omitempty"`
	// RunWait holds the times that goroutines were runnable before they ran.
	RunWait Waits `json:"run_wait"`
}

// CPU returns the processor time, user and system together.
func (u Usage) CPU() time.Duration { return time.Duration(u.UserNS + u.SystemNS) }

// Since subtracts the counters of an earlier reading.
func (u Usage) Since(earlier Usage) Usage {
	for _, column := range columns {
		if !column.gauge {
			*column.of(&u) -= *column.of(&earlier)
		}
	}
	return u
}

// Plus returns the usage of two processes, as if they were one: figures are sums, except figures
// of the machine and figures that each process has by itself.
func (u Usage) Plus(other Usage) Usage {
	sum := u
	for _, column := range columns {
		*column.of(&sum) += *column.of(&other)
	}
	sum.AtNS = max(u.AtNS, other.AtNS)
	sum.SuspendedNS = max(u.SuspendedNS, other.SuspendedNS)
	if sum.Go.GCPercent = u.Go.GCPercent; u.Go.GCPercent != other.Go.GCPercent {
		sum.Go.GCPercent = 0 // unknown: they differ
	}
	return sum
}

// Plus returns the usage of two processes, in the way of Usage.Plus.
func (w Window) Plus(other Window) Window {
	return Window{Usage: w.Usage.Plus(other.Usage), Most: w.Most.Plus(other.Most), StoppedNS: max(w.StoppedNS, other.StoppedNS)}
}

// Plus returns the sum of the gauges.
func (h Held) Plus(other Held) Held {
	h.RSSBytes += other.RSSBytes
	h.AnonBytes += other.AnonBytes
	h.Threads += other.Threads
	h.Sockets += other.Sockets
	h.Goroutines += other.Goroutines
	h.HeapLiveBytes += other.HeapLiveBytes
	return h
}

// heldBy returns the gauges of a reading.
func heldBy(u *Usage) Held {
	return Held{
		RSSBytes: u.RSSBytes, AnonBytes: u.AnonBytes, Threads: u.Threads, Sockets: u.Sockets,
		Goroutines: u.Go.Goroutines, HeapLiveBytes: u.Go.HeapLiveBytes,
	}
}

// A column is one figure of a Usage besides its instant. Subtraction, interpolation and
// the JSON form all use this one list.
type column struct {
	name   string
	gauge  bool
	metric string // its name in package runtime/metrics, if it has one
	of     func(*Usage) *int64
}

var columns = append([]column{
	{name: "user_ns", of: func(u *Usage) *int64 { return &u.UserNS }},
	{name: "system_ns", of: func(u *Usage) *int64 { return &u.SystemNS }},
	{name: "rss_bytes", gauge: true, of: func(u *Usage) *int64 { return &u.RSSBytes }},
	{name: "anon_bytes", gauge: true, of: func(u *Usage) *int64 { return &u.AnonBytes }},
	{name: "threads", gauge: true, of: func(u *Usage) *int64 { return &u.Threads }},
	{name: "sockets", gauge: true, of: func(u *Usage) *int64 { return &u.Sockets }},
	{name: "max_rss_bytes", gauge: true, of: func(u *Usage) *int64 { return &u.MaxRSSBytes }},
	{name: "voluntary_switches", of: func(u *Usage) *int64 { return &u.VoluntarySwitches }},
	{name: "involuntary_switches", of: func(u *Usage) *int64 { return &u.InvoluntarySwitches }},
	{name: "minor_faults", of: func(u *Usage) *int64 { return &u.MinorFaults }},
	{name: "major_faults", of: func(u *Usage) *int64 { return &u.MajorFaults }},
	{name: "throttled_ns", of: func(u *Usage) *int64 { return &u.ThrottledNS }},
	{name: "throttled_periods", of: func(u *Usage) *int64 { return &u.ThrottledPeriods }},
	{name: "suspended_ns", of: func(u *Usage) *int64 { return &u.SuspendedNS }},
	{name: "heap_live_bytes", gauge: true, metric: "/gc/heap/live:bytes", of: func(u *Usage) *int64 { return &u.Go.HeapLiveBytes }},
	{name: "goroutines", gauge: true, metric: "/sched/goroutines:goroutines", of: func(u *Usage) *int64 { return &u.Go.Goroutines }},
	{name: "allocated_bytes", metric: "/gc/heap/allocs:bytes", of: func(u *Usage) *int64 { return &u.Go.AllocatedBytes }},
	{name: "allocated_objects", metric: "/gc/heap/allocs:objects", of: func(u *Usage) *int64 { return &u.Go.AllocatedObjects }},
	{name: "gc_cycles", metric: "/gc/cycles/total:gc-cycles", of: func(u *Usage) *int64 { return &u.Go.GCCycles }},
	{name: "gc_ns", metric: "/cpu/classes/gc/total:cpu-seconds", of: func(u *Usage) *int64 { return &u.Go.GCNS }},
	{name: "gc_assist_ns", metric: "/cpu/classes/gc/mark/assist:cpu-seconds", of: func(u *Usage) *int64 { return &u.Go.GCAssistNS }},
	{name: "gc_percent", gauge: true, of: func(u *Usage) *int64 { return &u.Go.GCPercent }},
}, waitColumns()...)

// Waits is a histogram of waiting times: bucket 0 holds those under 256 ns, then two buckets per
// octave follow, the last for 4.3 s and more. A quantile of it is right to a quarter of its
// value.
type Waits [waitBuckets]int64

const waitBuckets = 50

// waitBound returns the lower bound of a bucket. The bounds are a subset of the Go
// runtime's, so that each of its buckets falls into one of these.
func waitBound(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	const step = 128 * time.Nanosecond
	octave, half := (bucket-1)/2, (bucket-1)%2
	return step * time.Duration((2+half)<<octave)
}

// waitBucket finds the bucket of a wait.
func waitBucket(wait time.Duration) int {
	bucket := 0
	for bucket+1 < waitBuckets && waitBound(bucket+1) <= wait {
		bucket++
	}
	return bucket
}

// Total counts the waits.
func (w Waits) Total() int64 {
	var total int64
	for _, count := range w {
		total += count
	}
	return total
}

// Quantile returns the wait that a share q, 0 to 1, of all waits is below, assuming an even spread
// within a bucket; false if there are no waits.
func (w Waits) Quantile(q float64) (time.Duration, bool) {
	total := w.Total()
	if total <= 0 {
		return 0, false
	}
	rank := math.Max(0, math.Min(1, q)) * float64(total)
	last := 0
	for bucket, count := range w {
		if count == 0 {
			continue
		}
		last = bucket
		if rank > float64(count) {
			rank -= float64(count)
			continue
		}
		if bucket == waitBuckets-1 {
			break
		}
		low, high := waitBound(bucket), waitBound(bucket+1)
		return low + time.Duration(rank/float64(count)*float64(high-low)), true
	}
	return waitBound(last), true
}

func waitColumns() []column {
	list := make([]column, waitBuckets)
	for bucket := range list {
		list[bucket] = column{
			name: fmt.Sprintf("run_wait_%d", waitBound(bucket).Nanoseconds()),
			of:   func(u *Usage) *int64 { return &u.Go.RunWait[bucket] },
		}
	}
	return list
}
