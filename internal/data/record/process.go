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
	// The part of GCCPUNS in which goroutines had to help the collector before they could allocate.
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
	// Seen holds the probe's figures of this process.
	Seen *Seen `json:"seen,omitempty"`
}

// Gaps counts how often another program, or the hypervisor, kept a thread off an end's CPU, and
// the least time that this took. The threads slept on the end's CPUs, for 2 to 6 ms at a time and
// at the priority of the workers.
type Gaps struct {
	CPUs      int   `json:"cpus"`       // the number of watched CPUs
	Wakings   int64 `json:"wakings"`    // how often the watching threads woke in the window
	LongestNS int64 `json:"longest_ns"` // the longest gap
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

// The probes. Each records more of a trial than the processes' own counters do, and slows it
// down: a trial is measured with one of them, or with none.
const (
	ProbeCounters    = "counters" // hardware and scheduler events of each process
	ProbeSyscalls    = "syscalls" // each system call: how often, and for how long
	ProbeCPU         = "cpu"      // call stacks on a CPU
	ProbeOffCPU      = "offcpu"   // call stacks that wait for something
	ProbeAllocations = "alloc"    // call stacks that allocate
	ProbeLife        = "life"     // the stages of each call, with one client
)

// Probes lists all probes, in the order in which people see them.
var Probes = []string{ProbeCounters, ProbeSyscalls, ProbeCPU, ProbeOffCPU, ProbeAllocations, ProbeLife}

// Seen holds a probe's figures of one process within the window.
type Seen struct {
	// Method names the method for people: "BPF", "perf events".
	Method   string    `json:"method"`
	Counters []Counter `json:"counters,omitempty"`
	Syscalls []Syscall `json:"syscalls,omitempty"`
	Stacks   *Stacks   `json:"stacks,omitempty"` // on a CPU, or waiting
	// Missing lists the figures that could not be measured, each with the reason and a remedy.
	Missing []string `json:"missing,omitempty"`
}

// A Counter counts one kind of event.
type Counter struct {
	Name  string  `json:"name"`            // as in cpu-migrations
	Count float64 `json:"count"`           // extrapolated if the counter ran for only a share of the time
	Share float64 `json:"share,omitempty"` // the share of the time in which the counter ran; absent: all of it
}

// A Syscall holds the calls of one system call.
type Syscall struct {
	Name  string `json:"name"`
	Count int64  `json:"count"` // of calls that were entered
	// NS is the time of the calls that returned, including waiting. It is absent if it was not
	// measured.
	NS *int64 `json:"ns,omitempty"`
}

// Stacks holds call stacks, each with a weight. They share one list of functions.
type Stacks struct {
	Unit    string  `json:"unit"`           // ns: of CPU time, or of waiting
	Samples int64   `json:"samples"`        // the number of samples behind the weights
	Lost    int64   `json:"lost,omitempty"` // samples lost because the buffer was full
	Frames  []Frame `json:"frames"`         // the functions, to which Stack.Frames refers by index
	Stacks  []Stack `json:"stacks"`
}

// Plus returns the stacks of both, first the stacks of s. The caller must add up equal stacks.
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
	// In is "kernel", a library's name, or empty for the program itself.
	In string `json:"in,omitempty"`
}

// InKernel is the Frame.In of the kernel's functions.
const InKernel = "kernel"

// Stack is a call stack.
type Stack struct {
	Frames []int `json:"frames"` // indices, the outermost first
	Weight int64 `json:"weight"`
	Count  int64 `json:"count"` // samples
}

// Functions returns the frames of a stack.
func (s *Stacks) Functions(stack Stack) []Frame {
	frames := make([]Frame, len(stack.Frames))
	for i, frame := range stack.Frames {
		frames[i] = s.Frames[frame]
	}
	return frames
}

// Life holds the times of single calls, stage by stage, seen with one client.
type Life struct {
	Method string   `json:"method"`
	Stages []string `json:"stages"` // their names, in the order of a call
	// Calls holds the durations of each call's stages, in nanoseconds; they add up to the
	// call's time.
	Calls [][]int64 `json:"calls"`
	// Untold counts the calls whose stages could not be separated.
	Untold int64 `json:"untold"`
	// TracedNS and BareNS are the mean times of a call while the probe was on, and while
	// it was off, by turns in the same process. They are absent if the probe was always on.
	TracedNS *float64 `json:"traced_ns,omitempty"`
	BareNS   *float64 `json:"bare_ns,omitempty"`
	Missing  []string `json:"missing,omitempty"`
}

// IsProbe reports whether there is a probe of that name.
func IsProbe(name string) bool { return slices.Contains(Probes, name) }
