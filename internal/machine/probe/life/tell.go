// Package life divides single calls into stages, with one call in flight: when the request was
// written, when it reached the server's socket, when a thread of the server got a CPU, when the
// thread had read it, when the handler ran, and the same on the way back.
//
//	call begins ─ write ─ at the server's socket ─ server runs ─ reads ─ has read ─ handler
//	                                                                                   │
//	call ends ─ has read ─ reads ─ client runs ─ at the client's socket ─ write ─ handler ends
//
// Programs in the kernel note the instants of system calls, of arriving data and of threads
// that get a CPU; the processes themselves note the instants of calls and handlers. All use
// CLOCK_MONOTONIC. The programs run by turns, so that the calls in between show their cost;
// if calls are slow, they run all the time.
//
// tell combines the instants. It only calculates, and also works without the kernel's
// instants, with three stages instead of thirteen.
package life

import (
	"fmt"
	"slices"
	"sort"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

// A kind names what happened at an instant.
type kind uint8

const (
	writeEnters kind = iota + 1 // a system call that sends
	readEnters
	readReturns // with data
	dataArrives // at a socket of the end
	threadRuns  // got a CPU
)

// An event is something that happened at an end.
type event struct {
	atNS   int64
	kind   kind
	end    probe.End
	thread uint32
}

// Stages names the stages of a call, in their order.
var Stages = []string{
	"client: encode", "send request", "wake server", "server: schedule", "receive request", "server: decode",
	"handler",
	"server: encode", "send answer", "wake client", "client: schedule", "receive answer", "client: decode",
}

// coarse names the stages that the processes' notes show without the kernel.
var coarse = []string{"request", "handler", "answer"}

// tell divides calls into their stages, which add up to each call's time. The events and the
// calls are in order of time; on holds the spans in which no event is missing.
func tell(calls, handled [][2]int64, events []event, on []probe.Span) *record.Life {
	life := &record.Life{Stages: Stages}
	var traced, bare []int64
	for _, call := range calls {
		begin, end := call[0], call[0]+call[1]
		if !within(on, begin, end) {
			if outside(on, begin, end) {
				bare = append(bare, call[1])
			}
			continue
		}
		traced = append(traced, call[1])
		handler, found := only(handled, begin, end)
		if !found {
			life.Untold++
			continue
		}
		instants, told := trace(begin, end, handler, between(events, begin, end))
		if !told {
			life.Untold++
			continue
		}
		life.Calls = append(life.Calls, steps(instants))
	}
	life.TracedNS, life.BareNS = mean(traced), mean(bare)
	return life
}

// tellCoarsely divides calls by the notes of the processes alone, into the stages in coarse.
func tellCoarsely(calls, handled [][2]int64) *record.Life {
	life := &record.Life{Stages: coarse}
	for _, call := range calls {
		begin, end := call[0], call[0]+call[1]
		handler, found := only(handled, begin, end)
		if !found {
			life.Untold++
			continue
		}
		life.Calls = append(life.Calls, steps([]int64{begin, handler[0], handler[0] + handler[1], end}))
	}
	return life
}

// trace finds the instants between the stages of a call, if all are known and in order.
func trace(begin, end int64, handler [2]int64, events []event) (instants []int64, told bool) {
	handled, answered := handler[0], handler[0]+handler[1]
	request, told := way(begin, handled, events, probe.Client, probe.Server)
	if !told {
		return nil, false
	}
	answer, told := way(answered, end, events, probe.Server, probe.Client)
	if !told {
		return nil, false
	}
	instants = slices.Concat([]int64{begin}, request, []int64{handled, answered}, answer, []int64{end})
	return instants, slices.IsSorted(instants)
}

// way finds the five instants of a message between two instants: written, arrived at the other
// end's socket, that end running, reading, having read. A message may take several writes and
// reads: the first write counts, and the last of each other instant.
func way(begin, end int64, events []event, from, to probe.End) ([]int64, bool) {
	events = between(events, begin, end)
	written := slices.IndexFunc(events, func(e event) bool { return e.kind == writeEnters && e.end == from })
	if written < 0 {
		return nil, false
	}
	last := func(before int, kinds kind, match func(event) bool) int {
		for i := before - 1; i > written; i-- {
			if events[i].kind == kinds && events[i].end == to && match(events[i]) {
				return i
			}
		}
		return -1
	}
	read := last(len(events), readReturns, byAnyThread)
	if read < 0 {
		return nil, false
	}
	arrived := last(read, dataArrives, byAnyThread)
	if arrived < 0 {
		return nil, false
	}
	arrival := events[arrived].atNS
	// A thread that already waited in its read, or that needed no waking, has no instant of
	// its own for the stage: the stage then takes no time.
	runs, reads := arrival, arrival
	if i := slices.IndexFunc(events[arrived:read], func(e event) bool { return e.kind == threadRuns && e.end == to }); i >= 0 {
		runs = events[arrived+i].atNS
		reads = runs
	}
	if i := last(read, readEnters, func(e event) bool { return e.thread == events[read].thread }); i >= 0 {
		reads = max(reads, events[i].atNS)
	}
	return []int64{events[written].atNS, arrival, runs, reads, events[read].atNS}, true
}

func byAnyThread(event) bool { return true }

// only returns the handler that ran within a call, if exactly one did.
func only(handled [][2]int64, begin, end int64) (handler [2]int64, found bool) {
	at := sort.Search(len(handled), func(i int) bool { return handled[i][0] >= begin })
	if at == len(handled) || handled[at][0]+handled[at][1] > end {
		return handler, false
	}
	return handled[at], at+1 == len(handled) || handled[at+1][0] >= end
}

// between returns the events from one instant to another.
func between(events []event, begin, end int64) []event {
	after := func(instant int64) int {
		return sort.Search(len(events), func(i int) bool { return events[i].atNS >= instant })
	}
	return events[after(begin):after(end)]
}

// within reports whether a time lies in one of the spans, and outside whether it touches none.
func within(spans []probe.Span, begin, end int64) bool {
	return slices.ContainsFunc(spans, func(s probe.Span) bool { return s.BeginNS <= begin && end <= s.EndNS })
}

func outside(spans []probe.Span, begin, end int64) bool {
	return !slices.ContainsFunc(spans, func(s probe.Span) bool { return begin < s.EndNS && s.BeginNS < end })
}

func steps(instants []int64) []int64 {
	steps := make([]int64, len(instants)-1)
	for i := range steps {
		steps[i] = instants[i+1] - instants[i]
	}
	return steps
}

// mean returns nil for no values.
func mean(values []int64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sum := int64(0)
	for _, value := range values {
		sum += value
	}
	return new(float64(sum) / float64(len(values)))
}

// Coarse measures three stages of a call from the notes of the processes themselves. It works on
// every machine, without extra cost.
type Coarse struct{ coverage probe.Coverage }

// StartCoarse returns a Coarse; why is the reason for measuring no more stages.
func StartCoarse(why error) *Coarse {
	return &Coarse{probe.Coverage{
		Method:  "the processes' own notes",
		Missing: []string{fmt.Sprintf("the stages outside of the handler: %v", why)},
	}}
}

// Coverage returns how it works.
func (c *Coarse) Coverage() probe.Coverage { return c.coverage }

// Process does nothing: the processes know what to note.
func (*Coarse) Process(probe.End, int) error { return nil }

// Stop returns the stages of the calls.
func (c *Coarse) Stop(m probe.Measured) (probe.Findings, error) {
	return found(tellCoarsely(m.Calls, m.Handled), c.coverage, m), nil
}

// found adds to life how calls were divided, and why, if none was.
func found(life *record.Life, how probe.Coverage, m probe.Measured) probe.Findings {
	life.Method, life.Missing = how.Method, how.Missing
	if len(m.Calls) > 0 && len(m.Handled) == 0 {
		life.Missing = append(life.Missing, "every call: the server does not note its handlers; wirelab's own workers do")
	}
	return probe.Findings{Life: life}
}
