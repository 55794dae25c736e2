package record

// Process is what one end cost over the window.
type Process struct {
	CPUs       []int  `json:"cpus,omitempty"` // what it was pinned to
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	Version    string `json:"version,omitempty"` // of the worker's runtime
	UserNS     *int64 `json:"user_ns,omitempty"`
	SystemNS   *int64 `json:"system_ns,omitempty"`
	// RSSBytes is the resident memory at the window's end, PeakBytes the most
	// in the window: the kernel's own peak where it rose in the window, and
	// otherwise the most that was seen in it.
	RSSBytes  *int64 `json:"rss_bytes,omitempty"`
	PeakBytes *int64 `json:"peak_bytes,omitempty"`
	// OwnBytes is the most in the window of the memory that is the process's
	// own: without the pages of files, of which wirelab's program has some 34
	// MB, whatever it carries.
	OwnBytes *int64 `json:"own_bytes,omitempty"`
	// The most that was seen in the window.
	Threads     *int64   `json:"threads,omitempty"`
	Sockets     *int64   `json:"sockets,omitempty"`
	Goroutines  *int64   `json:"goroutines,omitempty"`
	HeapBytes   *int64   `json:"heap_bytes,omitempty"`
	SwitchesVol *int64   `json:"switches_voluntary,omitempty"`
	SwitchesInv *int64   `json:"switches_involuntary,omitempty"`
	MinorFaults *int64   `json:"minor_faults,omitempty"`
	MajorFaults *int64   `json:"major_faults,omitempty"`
	GCCycles    *int64   `json:"gc_cycles,omitempty"`
	GCCPUNS     *int64   `json:"gc_cpu_ns,omitempty"`
	SchedP50NS  *int64   `json:"sched_p50_ns,omitempty"` // goroutines: ready to running
	SchedP99NS  *int64   `json:"sched_p99_ns,omitempty"`
	Busy        *float64 `json:"busy,omitempty"` // share of the CPUs it was given
	// Allocations are those of all calls, warm-up included; there only where the
	// trial was profiled for them, and the process's runtime tells.
	Allocations *Allocations `json:"allocations,omitempty"`
}

// CPUNS is user and system time together.
func (p Process) CPUNS() (int64, bool) {
	if p.UserNS == nil || p.SystemNS == nil {
		return 0, false
	}
	return *p.UserNS + *p.SystemNS, true
}

// Allocations is where a process's heap allocations came from, estimated from
// samples.
type Allocations struct {
	Bytes   int64 `json:"bytes"` // of all, those of no stack here included
	Objects int64 `json:"objects"`
	// Stacks are those that allocated most, by bytes.
	Stacks []AllocationStack `json:"stacks"`
}

// AllocationStack is who allocated: the functions of a call stack.
type AllocationStack struct {
	Functions []string `json:"functions"` // the outermost first; without the runtime's own that allocate
	Bytes     int64    `json:"bytes"`
	Objects   int64    `json:"objects"`
}

// Engine is the load engine's own cost in this trial.
type Engine struct {
	// BetweenNS is the time the clients spent between calls, outside of
	// them: recording, checking answers, being off the CPU.
	BetweenNS int64 `json:"between_ns"`
	// OwnNS is what a request costs the engine on this machine, measured
	// against a stack that answers at once.
	OwnNS float64 `json:"own_ns"`
}

// HostState is the machine around the trial.
type HostState struct {
	StolenShare   *float64 `json:"stolen_share,omitempty"` // CPU time that the hypervisor gave to others
	OthersShare   *float64 `json:"others_share,omitempty"` // CPU time that other processes took
	LostBefore    *float64 `json:"lost_before,omitempty"`  // share of a spin calibration that the CPU was away
	LostAfter     *float64 `json:"lost_after,omitempty"`
	LargestGapNS  *int64   `json:"largest_gap_ns,omitempty"`
	PressureShare *float64 `json:"pressure_share,omitempty"` // PSI: some task waited for a CPU
	// What the kernel dropped in the trial's network, from the client's start
	// to its end.
	AcceptDrops *int64 `json:"accept_drops,omitempty"` // connections that found a listen backlog full
	UDPDrops    *int64 `json:"udp_drops,omitempty"`    // datagrams that found a receive buffer full
}

// Limit is one of the machine's that a trial could run into.
type Limit struct {
	Name string `json:"name"` // file-descriptors, ports, backlog, udp-buffer …
	Need int64  `json:"need"`
	Have int64  `json:"have"`
	// How it was met, or what would raise it.
	Note string `json:"note,omitempty"`
}
