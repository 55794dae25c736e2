package record

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/sum"
)

// Process holds the resource use of the client's or the server's process in the window.
type Process struct {
	CPUs []int `json:"cpus,omitempty"` // CPUs that the process was pinned to
	// AllowedCPUs lists the CPUs on which the process's threads could run after the window.
	AllowedCPUs []int `json:"allowed_cpus,omitempty"`
	// TracedBy is the id of a process, such as a debugger, that traced this process after the
	// window.
	TracedBy int `json:"traced_by,omitempty"`
	// Nice is the priority of the process after the window: above 0, other processes come first.
	Nice int `json:"nice,omitempty"`
	// QuotaCPUs is the CPU limit of the process's control groups, in CPUs; absent without a limit.
	// ThrottledNS is the time in the window for which the kernel stopped the process because of the
	// limit. ThrottledPeriods counts the stops because of the limit, on each CPU.
	QuotaCPUs        *float64 `json:"quota_cpus,omitempty"`
	ThrottledNS      *int64   `json:"throttled_ns,omitempty"`
	ThrottledPeriods *int64   `json:"throttled_periods,omitempty"`
	// StoppedNS is the longest time in the window in which the process did not run. The process
	// reads its counters every 20 ms, so a stop shows as a gap between readings.
	StoppedNS  *int64 `json:"stopped_ns,omitempty"`
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	Version    string `json:"version,omitempty"` // version of the worker's runtime
	UserNS     *int64 `json:"user_ns,omitempty"`
	SystemNS   *int64 `json:"system_ns,omitempty"`
	// RSSBytes is the resident memory at the end of the window. PeakBytes is its maximum in the
	// window: the kernel's peak if it rose in the window, otherwise the highest reading.
	RSSBytes  *int64 `json:"rss_bytes,omitempty"`
	PeakBytes *int64 `json:"peak_bytes,omitempty"`
	// OwnBytes is the peak of the process's memory in the window without the pages of files. The
	// pages of files take some 34 MB in wirelab's program, with any stack.
	OwnBytes *int64 `json:"own_bytes,omitempty"`
	// Threads and the figures below are the highest readings in the window.
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
	// GCAssistNS is the part of GCCPUNS in which goroutines had to help the collector before they
	// could allocate memory.
	GCAssistNS *int64 `json:"gc_assist_ns,omitempty"`
	// The setting GOGC: 100 by default, -1 for off.
	GCPercent  *int64 `json:"gc_percent,omitempty"`
	SchedP50NS *int64 `json:"sched_p50_ns,omitempty"` // time from ready to running, of goroutines
	SchedP99NS *int64 `json:"sched_p99_ns,omitempty"`
	// WaitedNS is the time in the window for which threads of the process were ready to run but had
	// no CPU, summed over threads.
	WaitedNS *int64 `json:"waited_ns,omitempty"`
	// Gaps counts the times when other programs kept the process off its CPUs.
	Gaps *Gaps    `json:"gaps,omitempty"`
	Busy *float64 `json:"busy,omitempty"` // used share of the CPUs that the process was given
	// Allocations counts the allocations of all calls, including those of the warm-up. It is absent
	// unless the trial was profiled for allocations and the process's runtime reports them.
	Allocations *Allocations `json:"allocations,omitempty"`
	// Seen holds the probe's figures for this process.
	Seen *Seen `json:"seen,omitempty"`
}

// Gaps counts how often another program or the hypervisor kept a watching thread off a CPU. The
// watching threads slept 2 to 6 ms at a time on the process's CPUs, with the workers' priority. The
// true gap may be longer than its length.
type Gaps struct {
	CPUs int `json:"cpus"` // number of watched CPUs
	// Number of times that the watching threads woke in the window.
	Wakings   int64 `json:"wakings"`
	LongestNS int64 `json:"longest_ns"` // length of the longest gap
	// Lengths counts the gaps of 50 µs and more, grouped by length.
	Lengths []GapLength `json:"lengths,omitempty"`
}

// A GapLength counts the gaps of about the same length.
type GapLength struct {
	Count int64 `json:"count"`
	SumNS int64 `json:"sum_ns"`
}

// CPUNS returns the sum of user time and system time.
func (p Process) CPUNS() (int64, bool) {
	if p.UserNS == nil || p.SystemNS == nil {
		return 0, false
	}
	return *p.UserNS + *p.SystemNS, true
}

// Allocations holds the call stacks of a process's heap allocations, estimated from samples.
type Allocations struct {
	Bytes   int64 `json:"bytes"` // bytes of all allocations, including stacks that are not listed
	Objects int64 `json:"objects"`
	// Stacks lists the stacks that allocated most bytes.
	Stacks []AllocationStack `json:"stacks"`
}

// Plus merges a and other. The stacks that allocated most come first.
func (a Allocations) Plus(other Allocations) Allocations {
	a.Bytes += other.Bytes
	a.Objects += other.Objects
	a.Stacks = sum.ByKey(a.Stacks, other.Stacks, func(s AllocationStack) string { return strings.Join(s.Functions, "\n") })
	slices.SortStableFunc(a.Stacks, func(a, b AllocationStack) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return a
}

// An AllocationStack holds a call stack and the amount that it allocated.
type AllocationStack struct {
	// Outermost function first; without the runtime's allocation functions.
	Functions []string `json:"functions"`
	Bytes     int64    `json:"bytes"`
	Objects   int64    `json:"objects"`
}

// Plus adds the amounts of s and other.
func (s AllocationStack) Plus(other AllocationStack) AllocationStack {
	s.Bytes += other.Bytes
	s.Objects += other.Objects
	return s
}

// Engine holds the load engine's own cost in this trial.
type Engine struct {
	// BetweenNS is the clients' time between calls: recording, checking answers, waiting for a CPU.
	BetweenNS int64 `json:"between_ns"`
	// OwnNS is the engine's own time per request on this machine. It is measured with a stack that
	// answers at once.
	OwnNS float64 `json:"own_ns"`
}

// HostState describes the machine around the trial.
type HostState struct {
	// Neighbours lists at most five other processes, those that used most CPU time.
	Neighbours []Neighbour `json:"neighbours,omitempty"`
	// Time in the window for which the machine was suspended.
	SuspendedNS *int64 `json:"suspended_ns,omitempty"`
	// Share of CPU time that the hypervisor gave to other guests.
	StolenShare *float64 `json:"stolen_share,omitempty"`
	// Share of CPU time that other processes used.
	OthersShare *float64 `json:"others_share,omitempty"`
	// OthersCPUs is the same as a mean number of CPUs.
	OthersCPUs *float64 `json:"others_cpus,omitempty"`
	// Share of time in which some task waited for a CPU (PSI).
	PressureShare *float64 `json:"pressure_share,omitempty"`
	// AcceptDrops counts connections that the kernel dropped in the trial's network because a
	// listen backlog was full, from the client's start to its end.
	AcceptDrops *int64 `json:"accept_drops,omitempty"`
	// UDPDrops counts datagrams dropped in the same time because a receive buffer was full.
	UDPDrops *int64 `json:"udp_drops,omitempty"`
}

// TakenByOthers returns the share of the machine's CPU time that other processes and other guests
// used, if the machine reports these shares.
func (h HostState) TakenByOthers() (share float64) {
	for _, taken := range []*float64{h.OthersShare, h.StolenShare} {
		if taken != nil {
			share += *taken
		}
	}
	return share
}

// Takers returns the neighbours, and the other virtual machines if the hypervisor gave CPU time to any.
func (h HostState) Takers() []Neighbour {
	if h.StolenShare == nil || *h.StolenShare == 0 {
		return h.Neighbours
	}
	return append(slices.Clone(h.Neighbours), Neighbour{Name: "other virtual machines", Share: *h.StolenShare})
}

// A Neighbour is another process that used CPU time during the trial.
type Neighbour struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // the kernel's name of the process, at most 15 bytes
	// Share is the share of the machine's CPU time that the process used, including children that
	// it waited for.
	Share float64 `json:"share"`
}

// A Limit is a limit of the machine that a trial may have reached.
type Limit struct {
	Name string `json:"name"` // file-descriptors, ports, backlog, udp-buffer …
	Need int64  `json:"need"`
	Have int64  `json:"have"`
	// Note says how the trial reached the limit, or how to raise the limit.
	Note string `json:"note,omitempty"`
}

// The probes. A probe records more figures than the processes' own counters, and slows the trial
// down. So a trial has at most one probe.
const (
	ProbeCounters    = "counters" // counts hardware and scheduler events of each process
	ProbeSyscalls    = "syscalls" // counts and times each system call
	ProbeCPU         = "cpu"      // call stacks that run on a CPU
	ProbeOffCPU      = "offcpu"   // call stacks that wait
	ProbeAllocations = "alloc"    // call stacks that allocate memory
	ProbeLife        = "life"     // stages of each call
)

// Probes lists all probes in the order of display.
var Probes = []string{ProbeCounters, ProbeSyscalls, ProbeCPU, ProbeOffCPU, ProbeAllocations, ProbeLife}

// Seen holds a probe's figures for one process in the window.
type Seen struct {
	// Method is the name of the method: "BPF", "perf events".
	Method   string    `json:"method"`
	Counters []Counter `json:"counters,omitempty"`
	Syscalls []Syscall `json:"syscalls,omitempty"`
	Stacks   *Stacks   `json:"stacks,omitempty"` // stacks that run on a CPU, or that wait
	// Missing lists the figures that could not be measured, each with the reason and a remedy.
	Missing []string `json:"missing,omitempty"`
}

// Plus adds the figures of two processes that were observed by the same method. Counters that only one
// of them has are left out, because their sum is unknown.
func (s Seen) Plus(other Seen) Seen {
	s.Method = cmp.Or(s.Method, other.Method)
	notIn := func(all []Counter) func(Counter) bool {
		return func(c Counter) bool {
			return !slices.ContainsFunc(all, func(o Counter) bool { return o.Name == c.Name })
		}
	}
	own, others := slices.DeleteFunc(slices.Clone(s.Counters), notIn(other.Counters)), slices.DeleteFunc(slices.Clone(other.Counters), notIn(s.Counters))
	s.Counters = sum.ByKey(own, others, func(c Counter) string { return c.Name })
	s.Syscalls = sum.ByKey(s.Syscalls, other.Syscalls, func(c Syscall) string { return c.Name })
	slices.SortStableFunc(s.Syscalls, func(a, b Syscall) int { return cmp.Compare(b.Count, a.Count) })
	s.Stacks = sum.AddPresent(s.Stacks, other.Stacks)
	s.Missing = slices.Concat(s.Missing, other.Missing)
	return s
}

// SubtractSyscalls subtracts the system calls by which the process read its own usage. It may be called
// with nil.
func (s *Seen) SubtractSyscalls(own map[string]int64) {
	if s == nil {
		return
	}
	for i := range s.Syscalls {
		c := &s.Syscalls[i]
		left := max(0, c.Count-own[c.Name])
		if c.NS != nil && c.Count > 0 {
			c.NS = new(int64(float64(*c.NS) * float64(left) / float64(c.Count)))
		}
		c.Count = left
	}
	s.Syscalls = slices.DeleteFunc(s.Syscalls, func(c Syscall) bool { return c.Count == 0 })
	slices.SortStableFunc(s.Syscalls, func(a, b Syscall) int { return cmp.Compare(b.Count, a.Count) })
}

// A Counter counts one kind of event.
type Counter struct {
	Name  string  `json:"name"`  // name of the event, such as cpu-migrations
	Count float64 `json:"count"` // extrapolated if the counter ran for only a part of the time
	// Share of the time in which the counter ran; absent means all of the time.
	Share float64 `json:"share,omitempty"`
}

// Plus adds the counts. The sum's share is the smaller one.
func (c Counter) Plus(other Counter) Counter {
	c.Count += other.Count
	if other.Share > 0 && (c.Share == 0 || other.Share < c.Share) {
		c.Share = other.Share
	}
	return c
}

// A Syscall holds the figures of one system call.
type Syscall struct {
	Name  string `json:"name"`
	Count int64  `json:"count"` // number of calls that began
	// NS is the total time of the calls that returned, including waiting. Absent if not measured.
	NS *int64 `json:"ns,omitempty"`
}

// Plus adds the counts and the times.
func (s Syscall) Plus(other Syscall) Syscall {
	s.Count += other.Count
	s.NS = sum.AddIntsIfBoth(s.NS, other.NS)
	return s
}

// Stacks holds call stacks with weights. All stacks refer to one list of functions.
type Stacks struct {
	Unit    string  `json:"unit"`           // ns: nanoseconds on a CPU, or of waiting
	Samples int64   `json:"samples"`        // number of samples behind the weights
	Lost    int64   `json:"lost,omitempty"` // samples lost because the buffer was full
	Frames  []Frame `json:"frames"`         // functions; Stack.Frames holds indices into this list
	Stacks  []Stack `json:"stacks"`
}

// Plus returns the stacks of s, then the stacks of other. The caller must add up equal stacks.
func (s Stacks) Plus(other Stacks) Stacks {
	s.Samples += other.Samples
	s.Lost += other.Lost
	behind := len(s.Frames)
	s.Frames = slices.Concat(s.Frames, other.Frames)
	s.Stacks = slices.Clone(s.Stacks)
	for _, stack := range other.Stacks {
		frames := make([]int, len(stack.Frames))
		for i, frame := range stack.Frames {
			frames[i] = behind + frame
		}
		s.Stacks = append(s.Stacks, Stack{Frames: frames, Weight: stack.Weight, Count: stack.Count})
	}
	return s
}

// Frame is a function of a call stack.
type Frame struct {
	Function string `json:"function"`
	// In is "kernel" or a library's name. Empty means the program itself.
	In string `json:"in,omitempty"`
}

// InKernel is the value of Frame.In for functions of the kernel.
const InKernel = "kernel"

// Stack is a call stack with its weight.
type Stack struct {
	Frames []int `json:"frames"` // indices into Stacks.Frames, the outermost function first
	Weight int64 `json:"weight"`
	Count  int64 `json:"count"` // number of samples
}

// Functions returns the functions of a stack, the outermost first.
func (s *Stacks) Functions(stack Stack) []Frame {
	frames := make([]Frame, len(stack.Frames))
	for i, frame := range stack.Frames {
		frames[i] = s.Frames[frame]
	}
	return frames
}

// IsProbe reports whether name is the name of a probe.
func IsProbe(name string) bool { return slices.Contains(Probes, name) }
