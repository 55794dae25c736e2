package record

import (
	"slices"
)

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

// Seen holds what a probe saw of one process within the window.
type Seen struct {
	// Method names the method for people: "BPF", "perf events".
	Method   string    `json:"method"`
	Counters []Counter `json:"counters,omitempty"`
	Syscalls []Syscall `json:"syscalls,omitempty"`
	Stacks   *Stacks   `json:"stacks,omitempty"` // on a CPU, or waiting
	// Missing lists the figures that could not be seen, each with the reason and a cure.
	Missing []string `json:"missing,omitempty"`
}

// A Counter counts one kind of event.
type Counter struct {
	Name  string  `json:"name"`            // as in cpu-migrations
	Count float64 `json:"count"`           // scaled up if it had its counter for a share of the time
	Share float64 `json:"share,omitempty"` // of the time in which it had a counter; absent: all
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
	Samples int64   `json:"samples"`        // that the weights come from
	Lost    int64   `json:"lost,omitempty"` // samples that found no room
	Frames  []Frame `json:"frames"`         // that the stacks refer to
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
