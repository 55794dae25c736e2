package probe

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"strings"

	"wirelab.dev/internal/record"
)

// samplingBytes is one sample in so many allocated bytes. A call of a few kilobytes
// gives a sample or two, and a thousand calls a picture.
const samplingBytes = 4 << 10

// SampleAllocations turns sampling on, or off: what samples is slower, so that its
// times are worth nothing. It must be called once, at a process's beginning, since
// samples that were taken at different rates cannot be told apart.
func SampleAllocations(on bool) {
	runtime.MemProfileRate = 0
	if on {
		runtime.MemProfileRate = samplingBytes
	}
}

// AllocationWatch counts from one instant to another.
type AllocationWatch struct {
	before map[site]sampled
}

// site is who allocates objects of one size.
type site struct {
	callers   callers
	sizeBytes int64
}

// callers are the addresses that the runtime keeps of a stack.
type callers [32]uintptr

type sampled struct{ bytes, objects int64 }

// WatchAllocations begins to count.
func WatchAllocations() *AllocationWatch { return &AllocationWatch{before: allocations()} }

// Stop ends the counting.
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

// leastShare is what a stack must have of the bytes or of the objects to be told.
const leastShare = 1e-3

// allocations are all samples so far.
func allocations() map[site]sampled {
	runtime.GC() // the profile is that of the last collection
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, true); !ok; {
		records = make([]runtime.MemProfileRecord, n+n/8+16) // some more may come meanwhile
		n, ok = runtime.MemProfile(records, true)
		if ok {
			records = records[:n]
		}
	}
	all := make(map[site]sampled, len(records))
	for i := range records {
		if r := &records[i]; r.AllocObjects > 0 { // a record is of one size
			all[site{r.Stack0, r.AllocBytes / r.AllocObjects}] = sampled{r.AllocBytes, r.AllocObjects}
		}
	}
	return all
}

// unsample is what samples of one size stand for: an allocation of that size is taken
// with the probability 1 - e^(-size/rate), as package runtime samples.
func unsample(s sampled) (bytes, objects int64) {
	if s.objects <= 0 || s.bytes <= 0 {
		return 0, 0
	}
	size := float64(s.bytes) / float64(s.objects)
	scale := 1 / (1 - math.Exp(-size/float64(samplingBytes)))
	return int64(float64(s.bytes) * scale), int64(float64(s.objects) * scale)
}

// functionsOf names a stack's functions, the outermost first. It leaves out the runtime's
// own at the inner end: they are how memory is allocated, not who needs it. A stack of
// nothing else, such as a collector's, is "runtime".
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
