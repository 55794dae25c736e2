package gotrace

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/exp/trace"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// A stackID is the index of a call stack in a stackTable.
type stackID uint32

const unknownStack stackID = 0

// A stackTable holds the call stacks of both processes in all turns of a trial, each once.
type stackTable struct {
	functions []string
	function  map[string]int
	stacks    [][]int // indexes into functions, the outermost first
	stack     map[string]stackID
}

func newStackTable() *stackTable {
	return &stackTable{function: map[string]int{}, stacks: make([][]int, 1), stack: map[string]stackID{"": unknownStack}}
}

// add returns the number of a stack. It leaves out the tracer's own functions.
func (t *stackTable) add(s trace.Stack) stackID {
	var names []string
	for f := range s.Frames() {
		if len(names) > 0 || !strings.HasPrefix(f.Func, "runtime/trace.") {
			names = append(names, f.Func)
		}
	}
	slices.Reverse(names)
	return t.addNames(names)
}

// addNames returns the number of the stack of these functions, the outermost first.
func (t *stackTable) addNames(names []string) stackID {
	functions := lists.Map(names, t.indexOf)
	var key []byte
	for _, function := range functions {
		key = binary.AppendUvarint(key, uint64(function))
	}
	id, known := t.stack[string(key)]
	if !known {
		id = stackID(len(t.stacks))
		t.stack[string(key)], t.stacks = id, append(t.stacks, functions)
	}
	return id
}

func (t *stackTable) indexOf(function string) int {
	at, known := t.function[function]
	if !known {
		at = len(t.functions)
		t.function[function], t.functions = at, append(t.functions, function)
	}
	return at
}

// A mark says with which call stack a goroutine did something and went on: it woke another goroutine, or
// began or ended a region.
type mark struct {
	at    int64
	stack stackID
}

// A part is a time in which a goroutine had one status and one call stack.
type part struct {
	step
	from, until int64
}

// parts divides a goroutine's time between two instants.
//
// A goroutine that waits, or is in a system call, has the stack with which it began. One that is ready
// has the stack with which it stopped running. A trace does not say where a goroutine ran: all time up
// to a mark, or up to the end of running, counts for the stack there. So a function that only computes
// counts for its caller. The runtime's CPU profile would add marks, but takes only 100 samples per
// second and CPU, which is too few for the slowest calls.
func (t *timeline) parts(g, from, until int64) iter.Seq[part] {
	return func(yield func(part) bool) {
		steps, next := t.steps[g], t.before(g, from)+1
		now := step{} // it did not exist yet
		if next > 0 {
			now = steps[next-1]
		}
		for from < until {
			end := int64(math.MaxInt64)
			if next < len(steps) {
				end = max(from, steps[next].at)
			}
			one := part{now, from, min(until, end)}
			if m, found := t.markAfter(g, from); now.to == running && found && m.at <= end {
				one.until, one.stack = min(one.until, m.at), m.stack
			} else if now.to == running && next < len(steps) {
				one.stack = steps[next].stack
			}
			if from < one.until && !yield(one) {
				return
			}
			if from = one.until; from == end {
				now = steps[next]
				next++
			}
		}
	}
}

// markAfter returns a goroutine's first mark after an instant.
func (t *timeline) markAfter(g, at int64) (m mark, found bool) {
	marks := t.marks[g]
	i, _ := slices.BinarySearchFunc(marks, at+1, func(m mark, at int64) int { return cmp.Compare(m.at, at) })
	if i == len(marks) || marks[i].at <= at { // CPU samples may be out of order
		return mark{}, false
	}
	return marks[i], true
}

// A place is a stage of a call, and the call stack of a goroutine in it.
type place struct {
	stage stage
	stack stackID
}

// places holds the time of one or more calls by place, in nanoseconds.
type places map[place]int64

func (p places) add(other places) places {
	for at, ns := range other {
		p[at] += ns
	}
	return p
}

const (
	// maxStackBytes limits the size of the call stacks in a record. The smallest stacks of each stage
	// are added up.
	maxStackBytes = 64 << 10
	// A function of a stack and a time of a call take about as many bytes.
	frameBytes, timeBytes = 5, 25
)

// slowAndMedian returns the call stacks of the slow and of the median calls. calls are those of life.
func (t *stackTable) slowAndMedian(life *record.Life, calls []places) *record.CallStacks {
	bySpeed := life.BySpeed()
	slow, medianCalls := lists.Map(record.MostSlowCalls(bySpeed), func(call int) places { return calls[call] }), record.MedianCalls(bySpeed)
	median, allSlow := places{}, places{}
	for _, call := range medianCalls {
		median.add(calls[call])
	}
	for _, call := range slow {
		allSlow.add(call)
	}
	mean := func(at place) float64 {
		return max(float64(allSlow[at])/float64(len(slow)), float64(median[at])/float64(len(medianCalls)))
	}
	all := slices.SortedFunc(maps.Keys(places{}.add(allSlow).add(median)), func(a, b place) int {
		return cmp.Or(cmp.Compare(mean(b), mean(a)), cmp.Compare(a.stage, b.stage), cmp.Compare(a.stack, b.stack))
	})
	w := stackWriter{table: t, function: map[string]int{}, other: map[stage]int{}, index: map[place]int{}}
	for _, at := range all {
		w.bytes += timeBytes
		for _, call := range slow {
			if call[at] > 0 {
				w.bytes += timeBytes
			}
		}
		w.add(at)
	}
	w.out.Slow, w.out.Median = lists.Map(slow, w.times), w.times(median)
	return &w.out
}

// A stackWriter copies the call stacks that a record needs.
type stackWriter struct {
	table    *stackTable
	out      record.CallStacks
	function map[string]int
	bytes    int
	other    map[stage]int // index of the rest of a stage
	index    map[place]int
}

func (w *stackWriter) add(at place) {
	names := append([]string{Stages[at.stage]}, lists.Map(w.table.stacks[at.stack], func(function int) string { return w.table.functions[function] })...)
	for _, name := range names {
		w.bytes += frameBytes
		if _, known := w.function[name]; !known {
			w.bytes += len(name)
		}
	}
	if w.bytes <= maxStackBytes || at.stack == unknownStack {
		w.index[at] = w.newStack(names)
		return
	}
	if _, known := w.other[at.stage]; !known {
		w.other[at.stage] = w.newStack([]string{Stages[at.stage], record.OtherStacks})
	}
	w.index[at] = w.other[at.stage]
}

func (w *stackWriter) newStack(names []string) int {
	w.out.Stacks = append(w.out.Stacks, lists.Map(names, func(name string) int {
		at, known := w.function[name]
		if !known {
			at = len(w.out.Functions)
			w.function[name], w.out.Functions = at, append(w.out.Functions, name)
		}
		return at
	}))
	return len(w.out.Stacks) - 1
}

func (w *stackWriter) times(of places) []record.StackTime {
	sums := map[int]int64{}
	for at, ns := range of {
		sums[w.index[at]] += ns
	}
	return lists.Map(slices.Sorted(maps.Keys(sums)), func(at int) record.StackTime { return record.StackTime{Stack: at, NS: sums[at]} })
}
