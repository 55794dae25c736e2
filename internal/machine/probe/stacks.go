package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
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

// Stacks gathers call stacks of one process, by the names of their functions.
type Stacks struct {
	Record record.Stacks
	frames map[record.Frame]int
	stacks map[string]int
	own    *symbol.Process
	kernel *symbol.Kernel // nil: the kernel's functions have no names
}

func newStacks() *Stacks {
	return &Stacks{Record: record.Stacks{Unit: "ns"}, frames: map[record.Frame]int{}, stacks: map[string]int{}}
}

// Gather returns the stacks that add adds for the ends whose programs were found, and how they
// were found. If symbol.OfKernel is unsupported, the kernel's functions have no names.
func Gather(programs [2]*symbol.Process, how Coverage, lost int64, add func(end int, to *Stacks) error) (findings Findings, err error) {
	for end, program := range programs {
		if program == nil {
			continue
		}
		stacks := newStacks()
		stacks.own = program
		if stacks.kernel, err = symbol.OfKernel(); err != nil && !errors.Is(err, host.ErrUnsupported) {
			return Findings{}, err
		}
		if err := add(end, stacks); err != nil {
			return Findings{}, err
		}
		*findings.Of(End(end)) = record.Seen{Method: how.Method, Missing: slices.Clone(how.Missing), Stacks: stacks.done()}
		stacks.Record.Lost = lost
	}
	return findings, nil
}

// Add adds a stack: its program counters, the innermost first.
func (s *Stacks) Add(user, kernel []uint64, weight int64) {
	var stack []int
	for _, pc := range kernel {
		stack = append(stack, s.frame(record.Frame{Function: cmp.Or(s.kernel.Name(pc), "[kernel]"), In: record.InKernel}))
	}
	for i, pc := range user {
		for _, frame := range s.own.Frames(pc, i == 0) {
			stack = append(stack, s.frame(frame))
		}
	}
	s.add(stack, weight, 1)
}

// add adds samples of a stack, the innermost frame first.
func (s *Stacks) add(stack []int, weight, samples int64) {
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

// Under returns the part of a kernel stack below the outermost call of a function whose name
// begins with name. It so removes the probe itself.
func (s *Stacks) Under(name string, kernel []uint64) []uint64 {
	for i := len(kernel) - 1; i >= 0; i-- {
		if strings.HasPrefix(s.kernel.Name(kernel[i]), name) {
			return kernel[i+1:]
		}
	}
	return kernel
}

func (s *Stacks) frame(frame record.Frame) int {
	at, known := s.frames[frame]
	if !known {
		at = len(s.Record.Frames)
		s.frames[frame] = at
		s.Record.Frames = append(s.Record.Frames, frame)
	}
	return at
}

// done returns the stacks, the heaviest first.
func (s *Stacks) done() *record.Stacks {
	slices.SortStableFunc(s.Record.Stacks, func(a, b record.Stack) int { return cmp.Compare(b.Weight, a.Weight) })
	return &s.Record
}

// ProfilesPerSecond is the rate of Go's own profile; pprof.StartCPUProfile knows no other.
const ProfilesPerSecond = 100

// A CPUProfile samples the calling process's stacks on a CPU with the Go runtime. It misses the
// kernel's part, but works where the kernel refuses perf events.
type CPUProfile struct{ text bytes.Buffer }

// StartCPUProfile starts a profile. Only one can run at a time.
func StartCPUProfile() (*CPUProfile, error) {
	p := &CPUProfile{}
	if err := pprof.StartCPUProfile(&p.text); err != nil {
		return nil, fmt.Errorf("sample the CPU time: %w", err)
	}
	return p, nil
}

// Stop returns the stacks since StartCPUProfile.
func (p *CPUProfile) Stop() (*record.Stacks, error) {
	pprof.StopCPUProfile()
	return parseProfile(p.text.Bytes())
}

// parseProfile reads a profile of CPU time, whose samples have a number and nanoseconds.
func parseProfile(text []byte) (*record.Stacks, error) {
	parsed, err := profile.ParseData(text)
	if err != nil {
		return nil, fmt.Errorf("parse a profile: %w", err)
	}
	if len(parsed.SampleType) != 2 || parsed.SampleType[1].Unit != "nanoseconds" {
		return nil, fmt.Errorf("parse a profile: its values are not those of CPU time")
	}
	stacks := newStacks()
	for _, sample := range parsed.Sample {
		var frames []int
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if line.Function != nil {
					frames = append(frames, stacks.frame(record.Frame{Function: line.Function.Name}))
				}
			}
		}
		stacks.add(frames, sample.Value[1], sample.Value[0])
	}
	return stacks.done(), nil
}

// samplingBytes is the mean number of allocated bytes between two samples. A call of a
// few kilobytes gives one or two samples, so a thousand calls are enough.
const samplingBytes = 4 << 10

// SampleAllocations turns sampling on or off, once, when the process starts. Sampling slows the
// process down, so that its times mean nothing.
func SampleAllocations(on bool) {
	runtime.MemProfileRate = 0
	if on {
		runtime.MemProfileRate = samplingBytes
	}
}

// AllocationWatch counts the allocations from WatchAllocations to Stop.
type AllocationWatch struct {
	before map[site]sampled
}

// A site is a call stack that allocates objects of one size.
type site struct {
	callers   callers
	sizeBytes int64
}

// callers holds the program counters of a call stack.
type callers [32]uintptr

type sampled struct{ bytes, objects int64 }

// WatchAllocations starts counting.
func WatchAllocations() *AllocationWatch { return &AllocationWatch{before: allocations()} }

// Stop returns the allocations since WatchAllocations.
func (w *AllocationWatch) Stop() *record.Allocations {
	byText := map[string]*record.AllocationStack{}
	all := &record.Allocations{}
	for at, after := range allocations() {
		before := w.before[at]
		bytes, objects := unsample(sampled{after.bytes - before.bytes, after.objects - before.objects})
		if objects == 0 {
			continue
		}
		all.Bytes, all.Objects = all.Bytes+bytes, all.Objects+objects
		functions := functionsOf(at.callers)
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
		return float64(s.Bytes) < leastShare*float64(all.Bytes) && float64(s.Objects) < leastShare*float64(all.Objects)
	})
	return all
}

// leastShare is the share of the bytes or of the objects that a listed stack has.
const leastShare = 1e-3

// allocations returns all samples so far.
func allocations() map[site]sampled {
	runtime.GC() // the profile shows the state of the last collection
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, true); !ok; {
		records = make([]runtime.MemProfileRecord, n+n/8+16) // more records may come meanwhile
		n, ok = runtime.MemProfile(records, true)
		if ok {
			records = records[:n]
		}
	}
	all := make(map[site]sampled, len(records))
	for i := range records {
		if r := &records[i]; r.AllocObjects > 0 { // a record holds objects of one size
			all[site{r.Stack0, r.AllocBytes / r.AllocObjects}] = sampled{r.AllocBytes, r.AllocObjects}
		}
	}
	return all
}

// unsample estimates the allocations behind samples of one size: package runtime samples
// an allocation with the probability 1 - e^(-size/rate).
func unsample(s sampled) (bytes, objects int64) {
	if s.objects <= 0 || s.bytes <= 0 {
		return 0, 0
	}
	size := float64(s.bytes) / float64(s.objects)
	scale := 1 / (1 - math.Exp(-size/float64(samplingBytes)))
	return int64(float64(s.bytes) * scale), int64(float64(s.objects) * scale)
}

// functionsOf returns the names of a stack's functions, the outermost first, without the runtime's
// allocating functions at the inner end; if no others are left, it returns "runtime".
func functionsOf(stack callers) []string {
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
