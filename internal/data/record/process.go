package record

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/sum"
)

// Process holds the cost of one end over the window.
type Process struct {
	CPUs []int `json:"cpus,omitempty"` // the CPUs that it was pinned to
	// AllowedCPUs lists the CPUs that the kernel let its threads use after the window.
	AllowedCPUs []int `json:"allowed_cpus,omitempty"`
	// TracedBy is the process that traced it after the window, as a debugger does.
	TracedBy int `json:"traced_by,omitempty"`
	// QuotaCPUs is the CPU time that its control groups granted, in CPUs; absent
	// without a limit. ThrottledNS is the time in the window for which they were
	// stopped because it was used up; ThrottledPeriods counts the stops, on each CPU.
	QuotaCPUs        *float64 `json:"quota_cpus,omitempty"`
	ThrottledNS      *int64   `json:"throttled_ns,omitempty"`
	ThrottledPeriods *int64   `json:"throttled_periods,omitempty"`
	// StoppedNS is the longest time in the window for which the process neither ran
	// nor read its own counters, as it does every 20 ms.
	StoppedNS  *int64 `json:"stopped_ns,omitempty"`
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	Version    string `json:"version,omitempty"` // of the worker's runtime
	UserNS     *int64 `json:"user_ns,omitempty"`
	SystemNS   *int64 `json:"system_ns,omitempty"`
	// RSSBytes is the resident memory at the window's end, PeakBytes the most
	// in the window: the kernel's own peak if it rose in the window, and
	// otherwise the highest reading.
	RSSBytes  *int64 `json:"rss_bytes,omitempty"`
	PeakBytes *int64 `json:"peak_bytes,omitempty"`
	// OwnBytes is the peak of the process's own memory in the window, without
	// the pages of files: those take some 34 MB for wirelab's program with any
	// stack.
	OwnBytes *int64 `json:"own_bytes,omitempty"`
	// The highest readings in the window.
	Threads     *int64 `json:"threads,omitempty"`
	Sockets     *int64 `json:"sockets,omitempty"`
	Goroutines  *int64 `json:"goroutines,omitempty"`
	HeapBytes   *int64 `json:"heap_bytes,omitempty"`
	SwitchesVol *int64 `json:"switches_voluntary,omitempty"`
	SwitchesInv *int64 `json:"switches_involuntary,omitempty"`
	MinorFaults *int64 `json:"minor_faults,omitempty"`
	MajorFaults *int64 `json:"major_faults,omitempty"`
	GCCycles    *int64 `json:"gc_cycles,omitempty"`
	GCCPUNS     *int64 `json:"gc_cpu_ns,omitempty"`
	// The part of it that goroutines spent when they wanted to allocate.
	GCAssistNS *int64 `json:"gc_assist_ns,omitempty"`
	GCPercent  *int64 `json:"gc_percent,omitempty"`   // GOGC: 100 by default, -1 for off
	SchedP50NS *int64 `json:"sched_p50_ns,omitempty"` // goroutines: ready to running
	SchedP99NS *int64 `json:"sched_p99_ns,omitempty"`
	// Gaps counts the times when other programs kept the process off its CPUs.
	Gaps *Gaps    `json:"gaps,omitempty"`
	Busy *float64 `json:"busy,omitempty"` // share of the CPUs it was given
	// Allocations counts the allocations of all calls, warm-up included. It is there only
	// if the trial was profiled for them, and the process's runtime reports them.
	Allocations *Allocations `json:"allocations,omitempty"`
	// Seen holds what the trial's probe saw of it.
	Seen *Seen `json:"seen,omitempty"`
}

// Gaps counts how often another program, or the hypervisor, kept a thread off an end's CPU, and
// the least time that this took. The threads slept on the end's CPUs, for 2 to 6 ms at a time and
// at the priority of the workers.
type Gaps struct {
	CPUs      int   `json:"cpus"`       // that were watched
	Wakings   int64 `json:"wakings"`    // in the window, on all of them
	LongestNS int64 `json:"longest_ns"` // gap
	// Lengths counts the gaps of 50 µs and more, by length.
	Lengths []GapLength `json:"lengths,omitempty"`
}

// A GapLength counts the gaps of about one length.
type GapLength struct {
	Count int64 `json:"count"`
	SumNS int64 `json:"sum_ns"`
}

// CPUNS returns user and system time together.
func (p Process) CPUNS() (int64, bool) {
	if p.UserNS == nil || p.SystemNS == nil {
		return 0, false
	}
	return *p.UserNS + *p.SystemNS, true
}

// Allocations holds the call stacks that a process's heap allocations came from,
// estimated from samples.
type Allocations struct {
	Bytes   int64 `json:"bytes"` // of all allocations, including those whose stack is not listed here
	Objects int64 `json:"objects"`
	// Stacks holds the stacks that allocated most, by bytes.
	Stacks []AllocationStack `json:"stacks"`
}

// Plus returns the allocations of both, the stacks that allocated most first.
func (a Allocations) Plus(other Allocations) Allocations {
	a.Bytes += other.Bytes
	a.Objects += other.Objects
	a.Stacks = sum.ByKey(a.Stacks, other.Stacks, func(s AllocationStack) string { return strings.Join(s.Functions, "\n") })
	slices.SortStableFunc(a.Stacks, func(a, b AllocationStack) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return a
}

// An AllocationStack holds the call stack that allocated, and how much.
type AllocationStack struct {
	Functions []string `json:"functions"` // the outermost first; without the functions of the runtime that allocate
	Bytes     int64    `json:"bytes"`
	Objects   int64    `json:"objects"`
}

// Plus returns the allocations of both.
func (s AllocationStack) Plus(other AllocationStack) AllocationStack {
	s.Bytes += other.Bytes
	s.Objects += other.Objects
	return s
}

// Engine is the load engine's own cost in this trial.
type Engine struct {
	// BetweenNS is the time the clients spent between calls, outside of
	// them: recording, checking answers, being off the CPU.
	BetweenNS int64 `json:"between_ns"`
	// OwnNS is the engine's own time per request on this machine, measured
	// with a stack that answers at once.
	OwnNS float64 `json:"own_ns"`
}

// HostState describes the machine around the trial.
type HostState struct {
	// Neighbours are the other processes that took most of the CPU time, at most five.
	Neighbours  []Neighbour `json:"neighbours,omitempty"`
	SuspendedNS *int64      `json:"suspended_ns,omitempty"` // how long the machine slept in the window
	// BothStoppedNS is the longest time for which other programs had CPUs of both ends at once.
	BothStoppedNS *int64   `json:"both_stopped_ns,omitempty"`
	StolenShare   *float64 `json:"stolen_share,omitempty"` // CPU time that the hypervisor gave to others
	OthersShare   *float64 `json:"others_share,omitempty"` // CPU time that other processes took
	LostBefore    *float64 `json:"lost_before,omitempty"`  // share of a spin calibration that the CPU was away
	LostAfter     *float64 `json:"lost_after,omitempty"`
	LargestGapNS  *int64   `json:"largest_gap_ns,omitempty"`
	PressureShare *float64 `json:"pressure_share,omitempty"` // PSI: some task waited for a CPU
	// The kernel's drops in the trial's network, from the client's start to
	// its end.
	AcceptDrops *int64 `json:"accept_drops,omitempty"` // connections that found a listen backlog full
	UDPDrops    *int64 `json:"udp_drops,omitempty"`    // datagrams that found a receive buffer full
}

// TakenByOthers returns the share of the machine's CPU time that other processes and other
// guests took, as far as the machine reports it.
func (h HostState) TakenByOthers() (share float64) {
	for _, taken := range []*float64{h.OthersShare, h.StolenShare} {
		if taken != nil {
			share += *taken
		}
	}
	return share
}

// A Neighbour is another process that ran during the trial.
type Neighbour struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // as the kernel has it, 15 bytes at most
	// Share is the part of the machine's CPU time that the process took, together with the
	// children that it waited for.
	Share float64 `json:"share"`
}

// A Limit is a limit of the machine that a trial could reach.
type Limit struct {
	Name string `json:"name"` // file-descriptors, ports, backlog, udp-buffer …
	Need int64  `json:"need"`
	Have int64  `json:"have"`
	// How the trial met it, or a way to raise it.
	Note string `json:"note,omitempty"`
}
