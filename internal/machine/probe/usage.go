package probe

import (
	"fmt"
	"math"
	"time"
)

// A Usage is a reading of a process, or the difference of two readings. In a difference, counters
// are subtracted, and gauges have the value of the later reading.
type Usage struct {
	// AtNS is the instant of the reading, or of the later reading in a difference.
	AtNS int64 `json:"at_ns"`
	// UserNS and SystemNS are CPU times, including the time of ended threads.
	UserNS   int64 `json:"user_ns"`
	SystemNS int64 `json:"system_ns"`
	// RSSBytes is the resident memory. It is a gauge.
	RSSBytes int64 `json:"rss_bytes"`
	// AnonBytes is the resident memory without the pages of files. It is a gauge. Most of those
	// pages hold the program's code, which all its processes share.
	AnonBytes int64 `json:"anon_bytes"`
	// MaxRSSBytes is the peak of RSSBytes. It is a gauge.
	MaxRSSBytes int64 `json:"max_rss_bytes"`
	// Threads is the number of threads. It is a gauge.
	Threads int64 `json:"threads"`
	// Sockets is the number of open sockets, including listening sockets. It is a gauge. It is 0
	// for other processes and before Linux 6.2, where it is unknown.
	Sockets             int64 `json:"sockets"`
	VoluntarySwitches   int64 `json:"voluntary_switches"`
	InvoluntarySwitches int64 `json:"involuntary_switches"`
	MinorFaults         int64 `json:"minor_faults"`
	MajorFaults         int64 `json:"major_faults"`
	// ThrottledNS is the time for which the CPU quota stopped the process's control groups, summed
	// over all CPUs. ThrottledPeriods is the number of stops because of the quota.
	ThrottledNS      int64 `json:"throttled_ns,omitempty"`
	ThrottledPeriods int64 `json:"throttled_periods,omitempty"`
	// SuspendedNS is the time for which the machine was suspended.
	SuspendedNS int64   `json:"suspended_ns,omitempty"`
	Go          GoUsage `json:"go,omitzero"`
	// Own counts the system calls of the readings themselves. It is zero if another process read.
	Own OwnCalls `json:"own,omitzero"`
}

// OwnCalls counts the system calls by which a process read its own usage.
type OwnCalls struct {
	Preads int64 `json:"pread64"`
	Fstats int64 `json:"fstat"`
	Clocks int64 `json:"clock_gettime"`
	Usages int64 `json:"getrusage"`
}

// ByName returns the counts by the name of the system call.
func (c OwnCalls) ByName() map[string]int64 {
	return map[string]int64{"pread64": c.Preads, "fstat": c.Fstats, "clock_gettime": c.Clocks, "getrusage": c.Usages}
}

// A Window holds the usage between two instants, and the maximum of each gauge.
type Window struct {
	Usage
	// Most holds the maximum of each gauge in the window.
	Most Gauges `json:"most"`
	// StoppedNS is the longest time for which the process was stopped: it did not run and took no
	// readings.
	StoppedNS int64 `json:"stopped_ns,omitempty"`
}

// Gauges holds one value for each gauge of a process.
type Gauges struct {
	// RSSBytes is exact if the process reached a new peak. Otherwise it is the highest reading.
	RSSBytes      int64 `json:"rss_bytes"`
	AnonBytes     int64 `json:"anon_bytes"`
	Threads       int64 `json:"threads"`
	Sockets       int64 `json:"sockets"`
	Goroutines    int64 `json:"goroutines"`
	HeapLiveBytes int64 `json:"heap_live_bytes"`
}

// GoUsage holds figures of the Go runtime. A process can read only its own figures.
type GoUsage struct {
	// HeapLiveBytes is the heap memory in use at the last garbage collection. It is a gauge.
	HeapLiveBytes int64 `json:"heap_live_bytes"`
	// Goroutines is the number of goroutines. It is a gauge.
	Goroutines int64 `json:"goroutines"`
	// AllocatedBytes and AllocatedObjects count heap allocations. The runtime counts small objects
	// late, when it takes a new span for them.
	AllocatedBytes   int64 `json:"allocated_bytes"`
	AllocatedObjects int64 `json:"allocated_objects"`
	GCCycles         int64 `json:"gc_cycles"`
	// GCNS is the garbage collector's CPU time, which the runtime estimates after each cycle.
	GCNS int64 `json:"gc_ns"`
	// GCAssistNS is the part of GCNS that goroutines used during their allocations.
	GCAssistNS int64 `json:"gc_assist_ns"`
	// GCPercent is the value of GOGC. It is a gauge. -1 means that the collector is off, 0 unknown.
	GCPercent int64 `json:"gc_percent,omitempty"`
	// RunWait holds how long ready goroutines waited until they ran.
	RunWait Waits `json:"run_wait"`
}

// CPU returns the sum of the user and system CPU time.
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

// WithoutGauges returns only the counters, as of a process that has ended.
func (u Usage) WithoutGauges() Usage {
	for _, column := range columns {
		if column.gauge {
			*column.of(&u) = 0
		}
	}
	return u
}

// Plus returns the sum of two processes' usage. It adds all figures except AtNS, SuspendedNS and
// GCPercent.
func (u Usage) Plus(other Usage) Usage {
	sum := u
	for _, column := range columns {
		*column.of(&sum) += *column.of(&other)
	}
	sum.AtNS = max(u.AtNS, other.AtNS)
	sum.SuspendedNS = max(u.SuspendedNS, other.SuspendedNS)
	if sum.Go.GCPercent = u.Go.GCPercent; u.Go.GCPercent != other.Go.GCPercent {
		sum.Go.GCPercent = 0 // unknown, because the two values differ
	}
	return sum
}

// Plus returns the sum of two processes' usage, like Usage.Plus.
func (w Window) Plus(other Window) Window {
	return Window{Usage: w.Usage.Plus(other.Usage), Most: w.Most.Plus(other.Most), StoppedNS: max(w.StoppedNS, other.StoppedNS)}
}

// Plus adds the gauges of another process.
func (h Gauges) Plus(other Gauges) Gauges {
	h.RSSBytes += other.RSSBytes
	h.AnonBytes += other.AnonBytes
	h.Threads += other.Threads
	h.Sockets += other.Sockets
	h.Goroutines += other.Goroutines
	h.HeapLiveBytes += other.HeapLiveBytes
	return h
}

func gaugesOf(u *Usage) Gauges {
	return Gauges{
		RSSBytes: u.RSSBytes, AnonBytes: u.AnonBytes, Threads: u.Threads, Sockets: u.Sockets,
		Goroutines: u.Go.Goroutines, HeapLiveBytes: u.Go.HeapLiveBytes,
	}
}

// A column describes one figure of a Usage. Subtraction, interpolation and the JSON form use the
// same list of columns.
type column struct {
	name   string
	gauge  bool
	metric string // name in package runtime/metrics; empty if there is none
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
	{name: "own_pread64", of: func(u *Usage) *int64 { return &u.Own.Preads }},
	{name: "own_fstat", of: func(u *Usage) *int64 { return &u.Own.Fstats }},
	{name: "own_clock_gettime", of: func(u *Usage) *int64 { return &u.Own.Clocks }},
	{name: "own_getrusage", of: func(u *Usage) *int64 { return &u.Own.Usages }},
	{name: "gc_percent", gauge: true, of: func(u *Usage) *int64 { return &u.Go.GCPercent }},
}, waitColumns()...)

// Waits is a histogram of waiting times. Bucket 0 counts waits below 256 ns. Then each doubling of
// the time has two buckets. The last bucket counts waits of at least 4.3 s. A quantile has an error
// of up to 25 %.
type Waits [waitBuckets]int64

const waitBuckets = 50

// waitBucketStart returns the lower bound of a bucket. Each bound is also a bound in the Go
// runtime's histogram, so each of the runtime's buckets lies inside one of these buckets.
func waitBucketStart(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	const step = 128 * time.Nanosecond
	octave, half := (bucket-1)/2, (bucket-1)%2
	return step * time.Duration((2+half)<<octave)
}

func waitBucketOf(wait time.Duration) int {
	bucket := 0
	for bucket+1 < waitBuckets && waitBucketStart(bucket+1) <= wait {
		bucket++
	}
	return bucket
}

// Total returns the number of waits.
func (w Waits) Total() int64 {
	var total int64
	for _, count := range w {
		total += count
	}
	return total
}

// Quantile returns the q-quantile of the waits, with q from 0 to 1. It returns false if there are
// no waits. It assumes that the waits inside a bucket are spread evenly.
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
		low, high := waitBucketStart(bucket), waitBucketStart(bucket+1)
		return low + time.Duration(rank/float64(count)*float64(high-low)), true
	}
	return waitBucketStart(last), true
}

func waitColumns() []column {
	list := make([]column, waitBuckets)
	for bucket := range list {
		list[bucket] = column{
			name: fmt.Sprintf("run_wait_%d", waitBucketStart(bucket).Nanoseconds()),
			of:   func(u *Usage) *int64 { return &u.Go.RunWait[bucket] },
		}
	}
	return list
}
