package probe

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
)

// samplingBytes is the mean number of allocated bytes between two samples. A call of a
// few kilobytes gives one or two samples, so a thousand calls are enough.
const samplingBytes = 4 << 10

// SampleAllocations turns sampling on or off. Sampling slows the process down, so that
// its times mean nothing. Call it once, when the process starts: samples of different
// rates cannot be distinguished.
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

// leastShare is the share of the bytes or of the objects that a stack must have to be
// listed.
const leastShare = 1e-3

// allocations returns all samples so far.
func allocations() map[site]sampled {
	runtime.GC() // the profile is as of the last collection
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

// functionsOf returns the names of a stack's functions, the outermost first. It leaves
// out the runtime's functions at the inner end: they show how memory is allocated, not
// what for. A stack of nothing else, such as the collector's, is "runtime".
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
