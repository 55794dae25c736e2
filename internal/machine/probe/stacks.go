package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/symbol"
)

// Stacks collects the call stacks of an end's processes as lists of function names.
type Stacks struct {
	Record   record.Stacks
	frames   map[record.Frame]int
	stacks   map[string]int
	programs map[int]*symbol.Process // by PID
	kernel   *symbol.Kernel          // nil if the names of kernel functions are unknown
}

func newStacks() *Stacks {
	return &Stacks{Record: record.Stacks{Unit: "ns"}, frames: map[record.Frame]int{}, stacks: map[string]int{}}
}

// GatherStacks calls add for each end with a process, and returns the collected stacks. If
// symbol.LoadKernel is unsupported, frames of the kernel have no names.
func GatherStacks(watched WatchedProcesses, how Coverage, lost int64, add func(end End, to *Stacks) error) (findings Findings, err error) {
	for _, end := range []End{Server, Client} {
		processes, missing := 0, slices.Clone(how.Missing)
		for pid, other := range watched.Ends {
			if other != end {
				continue
			}
			processes++
			if watched.hidden[pid] {
				missing = append(missing, fmt.Sprintf("function names of process %d: its memory map may not be read; run as root", pid))
			}
		}
		if processes == 0 {
			continue
		}
		slices.Sort(missing[len(how.Missing):])
		stacks := newStacks()
		stacks.programs = watched.programs
		if stacks.kernel, err = symbol.LoadKernel(); err != nil && !errors.Is(err, host.ErrUnsupported) {
			return Findings{}, err
		}
		if err := add(end, stacks); err != nil {
			return Findings{}, err
		}
		for _, pid := range slices.Sorted(maps.Keys(watched.programs)) {
			if program := watched.programs[pid]; watched.Ends[pid] == end && program != nil {
				if why := program.WhyUnnamed(); why != "" {
					missing = append(missing, why)
				}
			}
		}
		*findings.ForEnd(end) = record.Seen{Method: how.Method, Missing: missing, Stacks: stacks.sortedRecord()}
		stacks.Record.Lost = lost
	}
	return findings, nil
}

// Add adds a sample of a process's stack. user and kernel hold program counters, the innermost first.
func (s *Stacks) Add(pid int, user, kernel []uint64, weight int64) {
	var stack []int
	for _, pc := range kernel {
		stack = append(stack, s.frameIndex(record.Frame{Function: cmp.Or(s.kernel.FunctionName(pc), "[kernel]"), In: record.InKernel}))
	}
	program := s.programs[pid]
	if program == nil && len(user) > 0 { // it ended before its memory map was read, or the map is hidden
		stack, user = append(stack, s.frameIndex(record.Frame{Function: "[unknown program]"})), nil
	}
	if program != nil && len(user) > 1 && program.InLibrary(user[0]) && !program.InLibrary(user[1]) {
		if hidden, known := program.CalledFunction(user[1]); known {
			user = slices.Insert(slices.Clone(user), 1, hidden+1) // as if it were a return address
		}
	}
	for i, pc := range user {
		for _, frame := range program.Frames(pc, i == 0) {
			stack = append(stack, s.frameIndex(frame))
		}
	}
	s.addSamples(stack, weight, 1)
}

// addSamples adds samples of one stack. stack holds the numbers of the frames, the innermost first.
func (s *Stacks) addSamples(stack []int, weight, samples int64) {
	slices.Reverse(stack)
	key := make([]byte, 0, 4*len(stack))
	for _, frame := range stack {
		key = append(key, byte(frame), byte(frame>>8), byte(frame>>16))
	}
	at, known := s.stacks[string(key)]
	if !known {
		at = len(s.Record.Stacks)
		s.stacks[string(key)] = at
		s.Record.Stacks = append(s.Record.Stacks, record.Stack{Frames: stack})
	}
	s.Record.Samples += samples
	s.Record.Stacks[at].Weight += weight
	s.Record.Stacks[at].Count += samples
}

// BelowFunction removes the probe's own frames from a kernel stack: the outermost function whose
// name begins with name, and all functions that it called.
func (s *Stacks) BelowFunction(name string, kernel []uint64) []uint64 {
	for i := len(kernel) - 1; i >= 0; i-- {
		if strings.HasPrefix(s.kernel.FunctionName(kernel[i]), name) {
			return kernel[i+1:]
		}
	}
	return kernel
}

func (s *Stacks) frameIndex(frame record.Frame) int {
	at, known := s.frames[frame]
	if !known {
		at = len(s.Record.Frames)
		s.frames[frame] = at
		s.Record.Frames = append(s.Record.Frames, frame)
	}
	return at
}

func (s *Stacks) sortedRecord() *record.Stacks {
	slices.SortStableFunc(s.Record.Stacks, func(a, b record.Stack) int { return cmp.Compare(b.Weight, a.Weight) })
	return &s.Record
}

// ProfileSamplesPerSecond is the fixed rate of pprof.StartCPUProfile.
const ProfileSamplesPerSecond = 100

// A CPUProfile samples the calling process's stacks with the Go runtime. It does not show kernel
// functions, but it works if the kernel refuses perf events.
type CPUProfile struct{ text bytes.Buffer }

// StartCPUProfile starts a profile. Only one profile can run at a time.
func StartCPUProfile() (*CPUProfile, error) {
	p := &CPUProfile{}
	if err := pprof.StartCPUProfile(&p.text); err != nil {
		return nil, fmt.Errorf("start a CPU profile: %w", err)
	}
	return p, nil
}

// Stop returns the stacks since StartCPUProfile.
func (p *CPUProfile) Stop() (*record.Stacks, error) {
	pprof.StopCPUProfile()
	return parseProfile(p.text.Bytes())
}

// parseProfile reads a CPU profile. Each of its samples holds a count and a CPU time.
func parseProfile(text []byte) (*record.Stacks, error) {
	parsed, err := profile.ParseData(text)
	if err != nil {
		return nil, fmt.Errorf("parse a CPU profile: %w", err)
	}
	if len(parsed.SampleType) != 2 || parsed.SampleType[1].Unit != "nanoseconds" {
		return nil, fmt.Errorf("parse a CPU profile: its samples hold no CPU times in nanoseconds")
	}
	stacks := newStacks()
	for _, sample := range parsed.Sample {
		var frames []int
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if line.Function != nil {
					frames = append(frames, stacks.frameIndex(record.Frame{Function: line.Function.Name}))
				}
			}
		}
		stacks.addSamples(frames, sample.Value[1], sample.Value[0])
	}
	return stacks.sortedRecord(), nil
}

// allocationSamplingBytes is the mean number of allocated bytes per sample. A call that allocates a
// few kilobytes gives one or two samples, so a thousand calls suffice.
const allocationSamplingBytes = 4 << 10

// SampleAllocations turns the sampling of allocations on or off. Call it once, when the process
// starts. Sampling slows the process down, so do not use its latencies.
func SampleAllocations(on bool) {
	runtime.MemProfileRate = 0
	if on {
		runtime.MemProfileRate = allocationSamplingBytes
	}
}

// AllocationWatch counts the allocations between WatchAllocations and Stop.
type AllocationWatch struct {
	before map[allocationSite]sampledAllocations
}

// An allocationSite is a call stack that allocates objects of one size.
type allocationSite struct {
	callers   callers
	sizeBytes int64
}

type callers [32]uintptr

type sampledAllocations struct{ bytes, objects int64 }

// WatchAllocations starts to count allocations.
func WatchAllocations() *AllocationWatch { return &AllocationWatch{before: readAllocations()} }

// Stop returns the allocations since WatchAllocations.
func (w *AllocationWatch) Stop() *record.Allocations {
	byText := map[string]*record.AllocationStack{}
	all := &record.Allocations{}
	for at, after := range readAllocations() {
		before := w.before[at]
		bytes, objects := estimateAllocations(sampledAllocations{after.bytes - before.bytes, after.objects - before.objects})
		if objects == 0 {
			continue
		}
		all.Bytes, all.Objects = all.Bytes+bytes, all.Objects+objects
		functions := functionNames(at.callers)
		text := strings.Join(functions, ";")
		if byText[text] == nil {
			byText[text] = &record.AllocationStack{Functions: functions}
		}
		byText[text].Bytes += bytes
		byText[text].Objects += objects
	}
	for _, s := range byText {
		all.Stacks = append(all.Stacks, *s)
	}
	slices.SortFunc(all.Stacks, func(a, b record.AllocationStack) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), slices.Compare(a.Functions, b.Functions))
	})
	all.Stacks = slices.DeleteFunc(all.Stacks, func(s record.AllocationStack) bool {
		return float64(s.Bytes) < minListedShare*float64(all.Bytes) && float64(s.Objects) < minListedShare*float64(all.Objects)
	})
	return all
}

// minListedShare is the least share of all bytes or objects for which a stack is listed.
const minListedShare = 1e-3

func readAllocations() map[allocationSite]sampledAllocations {
	runtime.GC() // the profile has only allocations before the last collection
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, true); !ok; {
		// with room for records that are added meanwhile
		records = make([]runtime.MemProfileRecord, n+n/8+16)
		n, ok = runtime.MemProfile(records, true)
		if ok {
			records = records[:n]
		}
	}
	all := make(map[allocationSite]sampledAllocations, len(records))
	for i := range records {
		if r := &records[i]; r.AllocObjects > 0 { // a record holds objects of one size
			all[allocationSite{r.Stack0, r.AllocBytes / r.AllocObjects}] = sampledAllocations{r.AllocBytes, r.AllocObjects}
		}
	}
	return all
}

// estimateAllocations estimates all allocations of one size from the sampled allocations. The
// runtime samples an allocation with the probability 1 - e^(-size/rate).
func estimateAllocations(s sampledAllocations) (bytes, objects int64) {
	if s.objects <= 0 || s.bytes <= 0 {
		return 0, 0
	}
	size := float64(s.bytes) / float64(s.objects)
	scale := 1 / (1 - math.Exp(-size/float64(allocationSamplingBytes)))
	return int64(float64(s.bytes) * scale), int64(float64(s.objects) * scale)
}

// functionNames returns the names of a stack's functions, the outermost first. It leaves out the
// runtime's allocation functions. If no function remains, it returns "runtime".
func functionNames(stack callers) []string {
	depth := slices.Index(stack[:], 0)
	if depth < 0 {
		depth = len(stack)
	}
	var functions []string
	frames := runtime.CallersFrames(stack[:depth])
	for more := depth > 0; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if name := frame.Function; len(functions) > 0 || !strings.HasPrefix(name, "runtime.") {
			functions = append(functions, name)
		}
	}
	slices.Reverse(functions)
	if len(functions) > 1 && functions[0] == "runtime.goexit" {
		functions = functions[1:]
	}
	if len(functions) == 0 {
		return []string{"runtime"}
	}
	return functions
}
