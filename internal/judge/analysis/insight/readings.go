package insight

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// An Insight holds the probes' readings of a cell. Times are in microseconds.
type Insight struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	Link string         `json:"link,omitempty"` // emulated network; absent means that there is none
	Run  string         `json:"run,omitempty"`  // name of the run, if cells of two runs are explained
	Mean *matrix.Figure `json:"mean_us"`        // mean time of a call without a probe; null if the cell was not measured

	Settings []CellOption `json:"settings"` // options of the variant, the workload, the link and the connections
	Facts    Facts        `json:"facts"`    // figures of the measured trials

	Passes []Pass      `json:"passes"`
	Client EndReadings `json:"client"`
	Server EndReadings `json:"server"`
	Life   *Life       `json:"life,omitempty"` // absent if no probe traced calls
	Tail   *Tail       `json:"tail,omitempty"` // the slow calls beside the median calls; absent if no probe traced calls

	network     record.Network
	point       *matrix.Point        // the measured trials; nil if there are none
	comparisons []compare.Comparison // the run's comparisons
}

// Cell returns the cell of the insight, as far as its name needs it.
func (i *Insight) Cell() record.Cell {
	stack, _, _ := strings.Cut(i.Variant, ":")
	return record.Cell{Part: i.Part, Stack: stack, Variant: i.Variant, Place: i.Place}
}

// Name returns the variant's short name, or the version of a service.
func (i *Insight) Name() string { return cmp.Or(i.Cell().Version(), i.Cell().ShortVariant()) }

// A Pass holds one probe's extra trials of a cell, and their cost.
type Pass struct {
	Probe  string `json:"probe"`
	Trials int    `json:"trials"`
	// Requests is the number of requests of these trials, also before and after the window.
	Requests int64 `json:"requests"`
	// Cost is the time of a call with the probe, divided by the time without the probe; null if
	// unknown.
	Cost    *matrix.Figure `json:"cost"`
	Method  string         `json:"method"`            // how the probe read its figures
	Missing []string       `json:"missing,omitempty"` // what the probe could not read, and why
}

// An EndReadings holds the probes' readings of one end. A list is empty if its probe did not run.
type EndReadings struct {
	Counters []Count    `json:"counters"`
	Syscalls []Syscall  `json:"syscalls"`          // the most frequent first
	CPU      *Breakdown `json:"cpu,omitempty"`     // time on a CPU
	OffCPU   *Breakdown `json:"off_cpu,omitempty"` // time that threads waited, summed over all threads
	// Waits lists the waits of calls in the server's own functions, the longest first.
	Waits []Wait `json:"waits,omitempty"`
	// Allocated is nil if the heap was not profiled. The summary has the same allocations in a list.
	Allocated *Allocation `json:"-"`
	// Missing says which probes saw nothing of this end, and why.
	Missing []string `json:"missing,omitempty"`
}

// SyscallsPerCall returns the number of all system calls per call, or nil if none were counted.
func (in *EndReadings) SyscallsPerCall() *float64 {
	if len(in.Syscalls) == 0 {
		return nil
	}
	sum := 0.0
	for _, s := range in.Syscalls {
		sum += s.PerCall
	}
	return &sum
}

// PartialSyscalls returns the method that counted system calls if it counts only some kinds, or "".
func (i *Insight) PartialSyscalls() string {
	for _, p := range i.Passes {
		complete := func(s Syscall) bool { return s.Time != nil } // only the method that sees all calls has times
		if p.Probe == record.ProbeSyscalls && !slices.ContainsFunc(slices.Concat(i.Client.Syscalls, i.Server.Syscalls), complete) {
			return p.Method
		}
	}
	return ""
}

// A Count is a number of events per call.
type Count struct {
	Name    string  `json:"name"`
	PerCall float64 `json:"per_call"`
}

// A Syscall is one kind of system call.
type Syscall struct {
	Name    string   `json:"name"`
	PerCall float64  `json:"per_call"`
	Time    *float64 `json:"us" jsonschema:"nullable"` // mean time of one system call, including waiting; null if not measured
}

// A Breakdown divides a time per call by category.
type Breakdown struct {
	PerCall    float64        `json:"us_per_call"`
	Samples    int64          `json:"samples"`    // number of samples from which the shares were computed
	Categories []Category     `json:"categories"` // the largest first
	Functions  []FunctionTime `json:"functions"`  // the functions that take the most time, not counting functions that they call
	// Depth is the mean number of user-space functions in call stacks that end in the kernel.
	Depth *float64 `json:"depth" jsonschema:"nullable"`
	// Decoding tells where messages are decoded; absent if no sample shows it.
	Decoding *Decoding `json:"decoding,omitempty"`
}

// A Category is a named share of a time.
type Category struct {
	Name    string  `json:"name"`
	Share   float64 `json:"share"`
	PerCall float64 `json:"us_per_call"`
	Error   float64 `json:"error_us"` // standard error from sampling
	// Function is the program's innermost function in whose calls most of this time passes, or one of a library if
	// it has none; empty if there is neither.
	Function string `json:"function,omitempty"`
	// In is the innermost function of a library that Function calls for most of this time.
	In string `json:"in,omitempty"`
}

// A FunctionTime is a function and its time, not counting the functions that it calls.
type FunctionTime struct {
	Function string  `json:"function"`
	In       string  `json:"in,omitempty"` // kernel, or the library's name
	Share    float64 `json:"share"`
}

// A Decoding tells how deep in the call stack messages are decoded, and how long that takes.
type Decoding struct {
	Depth float64 `json:"depth"` // mean number of functions on the stack above the decoding function
	Share float64 `json:"share"` // share of the time that decoding takes
}

// meanOrRefused returns the mean time of a call, and whether it comes from invalid trials alone.
func (i *Insight) meanOrRefused() (us *float64, refused bool) {
	if i.Mean != nil {
		return &i.Mean.Value, false
	}
	return i.Facts.Mean, i.Facts.Mean != nil
}
