package gotrace

import (
	"cmp"
	"slices"
)

// A threadEventKind says what happened to a thread.
type threadEventKind uint16

const (
	threadRuns      threadEventKind = iota + 1 // it got a CPU
	threadWoken                                // it has work and waits for a CPU
	threadPreempted                            // it lost its CPU and still has work
	threadSleeps                               // it left its CPU to wait
)

// A threadEvent is something that happened to a thread of a process.
type threadEvent struct {
	at     int64
	thread uint32
	kind   threadEventKind
}

// withoutCPU returns a function of time that is 1 while threads of the process have work, and none
// of them has a CPU.
func withoutCPU(events []threadEvent) weights {
	slices.SortStableFunc(events, func(a, b threadEvent) int { return cmp.Compare(a.at, b.at) })
	last := map[uint32]threadEventKind{}
	var without weights
	running, ready := 0, 0
	count := func(kind threadEventKind, by int) {
		switch kind {
		case threadRuns:
			running += by
		case threadWoken, threadPreempted:
			ready += by
		}
	}
	for _, e := range events {
		if e.kind == threadWoken && last[e.thread] != threadSleeps {
			continue // it was woken while it ran, or before it was first seen
		}
		count(last[e.thread], -1)
		count(e.kind, 1)
		last[e.thread] = e.kind
		value := 0.0
		if ready > 0 && running == 0 {
			value = 1
		}
		without.set(e.at, value)
	}
	return without
}
