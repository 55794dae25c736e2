// Package life divides single calls into stages. It needs a load with one call in flight. Stages
// end when the request is written, when it reaches the server's socket, when a thread of the server
// gets a CPU, when the thread has read the request, and so on, until the client has the answer.
//
//	call begins ─ write ─ at the server's socket ─ server runs ─ reads ─ has read ─ handler
//	                                                                                   │
//	call ends ─ has read ─ reads ─ client runs ─ at the client's socket ─ write ─ handler ends
//
// Programs in the kernel record when system calls begin and end, when data arrives, and when
// threads get a CPU. The processes record when calls and handlers begin and end. All times are of
// CLOCK_MONOTONIC. The programs run with pauses. The calls in the pauses show how much slower the
// programs make a call. If calls are slow, the programs run all the time.
//
// divideCalls computes thirteen stages from these times. Where the kernel refuses programs, and for
// several calls in flight, package gotrace divides calls instead.
package life

import (
	"fmt"
	"slices"
	"sort"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

// An eventKind is the kind of an event.
type eventKind uint8

const (
	writeEnters eventKind = iota + 1 // a system call begins to send
	readEnters                       // a system call begins to receive
	readReturns                      // a system call has received data
	dataArrives                      // data arrived at a socket of the end
	threadRuns                       // a thread got a CPU
)

// An event is something that happened at the server or the client.
type event struct {
	atNS   int64
	kind   eventKind
	end    probe.End
	thread uint32
}

// Stages lists the names of a call's stages, from first to last.
var Stages = []string{
	"client: encode", "send request", "wake server", "server: schedule", "receive request", "server: decode",
	"handler",
	"server: encode", "send answer", "wake client", "client: schedule", "receive answer", "client: decode",
}

// turns holds the periods of the programs in the kernel. Between them, programs are being attached or detached.
type turns struct {
	on, lost []probe.Span // all programs ran; in lost, the kernel had no room for some of their events
	off      []probe.Span // no program ran
}

// divideCalls divides calls into stages. The durations of a call's stages add up to its time. Calls
// and events must be in order of time.
func divideCalls(calls, handled [][2]int64, events []event, turns turns) *record.Life {
	life := &record.Life{Stages: Stages}
	traced, lost := 0, 0
	for _, call := range calls {
		begin, end := call[0], call[0]+call[1]
		switch {
		case probe.InsideOneSpan(turns.on, begin, end):
			traced++
		case probe.InsideOneSpan(turns.lost, begin, end):
			lost++
			continue
		default:
			continue
		}
		handler, found := singleHandler(handled, begin, end)
		if !found {
			life.Untold++
			continue
		}
		instants, told := findInstants(begin, end, handler, eventsBetween(events, begin, end))
		if !told {
			life.Untold++
			continue
		}
		life.Calls = append(life.Calls, durations(instants))
	}
	life.TracedNS, life.BareNS = probe.MeanInTurns(calls, turns.on, turns.off)
	life.Untold += int64(lost)
	if lost > 0 {
		life.Missing = append(life.Missing, fmt.Sprintf("%d of %d calls: the kernel had no room for their events, which are read only when a CPU is free: use fewer CPUs for both ends", lost, len(calls)))
	}
	if traced+lost == 0 && len(calls) > 0 {
		life.Untold = int64(len(calls))
		life.Missing = append(life.Missing, fmt.Sprintf("all %d calls: none began and ended while the programs ran: the probe got a CPU too late to switch them on; leave a CPU free of both ends", len(calls)))
	}
	return life
}

// findInstants returns the instants between the stages of a call. It returns false if an instant is
// unknown or if the instants are not in order.
func findInstants(begin, end int64, handler [2]int64, events []event) (instants []int64, told bool) {
	handled, answered := handler[0], handler[0]+handler[1]
	request, told := messageInstants(begin, handled, events, probe.Client, probe.Server)
	if !told {
		return nil, false
	}
	answer, told := messageInstants(answered, end, events, probe.Server, probe.Client)
	if !told {
		return nil, false
	}
	instants = slices.Concat([]int64{begin}, request, []int64{handled, answered}, answer, []int64{end})
	return instants, slices.IsSorted(instants)
}

// messageInstants finds five instants of a message: when it was written, when it arrived at the
// receiver's socket, when a thread of the receiver ran, when the thread began to read, and when it
// had read the message. Of several writes the first counts. Of several arrivals, runs or reads the
// last counts.
func messageInstants(begin, end int64, events []event, from, to probe.End) ([]int64, bool) {
	events = eventsBetween(events, begin, end)
	written := slices.IndexFunc(events, func(e event) bool { return e.kind == writeEnters && e.end == from })
	if written < 0 {
		return nil, false
	}
	last := func(before int, kinds eventKind, match func(event) bool) int {
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
	// If the thread was already running or reading, there is no event for this instant. Then the
	// stage takes no time.
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

// singleHandler returns the handler's run inside a call, or false unless there is exactly one.
func singleHandler(handled [][2]int64, begin, end int64) (handler [2]int64, found bool) {
	at := sort.Search(len(handled), func(i int) bool { return handled[i][0] >= begin })
	if at == len(handled) || handled[at][0]+handled[at][1] > end {
		return handler, false
	}
	return handled[at], at+1 == len(handled) || handled[at+1][0] >= end
}

func eventsBetween(events []event, begin, end int64) []event {
	after := func(instant int64) int {
		return sort.Search(len(events), func(i int) bool { return events[i].atNS >= instant })
	}
	return events[after(begin):after(end)]
}

func durations(instants []int64) []int64 {
	steps := make([]int64, len(instants)-1)
	for i := range steps {
		steps[i] = instants[i+1] - instants[i]
	}
	return steps
}
