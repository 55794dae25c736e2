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

// cpuTimes says when a process had no CPU.
type cpuTimes struct {
	known bool
	// without is 1 while threads of the process have work, and none of them has a CPU. asleep is 1
	// while all of them wait for something else.
	without, asleep weights
}

func cpuTimesOf(events []threadEvent) cpuTimes {
	slices.SortStableFunc(events, func(a, b threadEvent) int { return cmp.Compare(a.at, b.at) })
	last, times := map[uint32]threadEventKind{}, cpuTimes{known: len(events) > 0}
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
		without, asleep := 0.0, 0.0
		switch {
		case running > 0:
		case ready > 0:
			without = 1
		default:
			asleep = 1
		}
		times.without.set(e.at, without)
		times.asleep.set(e.at, asleep)
	}
	return times
}
