// Package probe reads the kernel's and the Go runtime's figures of a process:
// processor time, memory, switches, faults, collections, and how long goroutines
// waited to run.
//
//  1. [Self] reads the calling process, [OfProcess] any other.
//  2. A [Sampler] reads one of them periodically until the worker ends, because a
//     worker does not know when the measured window will be.
//  3. The resulting [Series] is sent as JSON to the lab, which knows the window.
//  4. [Series.Between] returns the part in the window.
//
// Instants come from internal/base/clock, which all processes of a machine share.
//
// The package must not know what the process was doing: no stack, no load.
//
// Glossary
//
//	counter  a figure that only grows, so that the difference of two readings has a meaning
//	gauge    a figure with a meaning of its own, such as the number of goroutines
//	fault    a page that the process touched and the kernel had to provide;
//	         minor if without reading it from a disk
//	switch   a thread giving up its CPU: voluntary to wait, involuntary when
//	         the scheduler takes it away
package probe

import "wirelab.dev/internal/data/record"

// An End is one end of a wire.
type End int

// The ends.
const (
	Server End = iota
	Client
)

// A Watch observes more of a trial's two processes than their own counters show, and slows them
// down: the times of a watched trial do not count. It begins before the processes do.
type Watch interface {
	// Process sets the process at an end, in place of an earlier one.
	Process(end End, pid int) error
	// Coverage returns how the probe works here, and what it misses.
	Coverage() Coverage
	// Stop ends the watch, and returns its findings in the window.
	Stop(Measured) (Findings, error)
}

// A PortWatch is a Watch that also recognises the ends' sockets by the server's port.
type PortWatch interface {
	Watch
	// Listens sets the port of the server.
	Listens(port int) error
}

// A Coverage says how a probe works on this machine.
type Coverage struct {
	Method  string   `json:"method"`
	Missing []string `json:"missing,omitempty"` // each with the reason and a cure
}

// Measured holds the measured window, and the notes of the processes in it.
type Measured struct {
	Span
	// Calls holds the begin and the duration of each call, and Handled the begin and the
	// duration of each handler. Only the probe of a call's life has them.
	Calls, Handled [][2]int64
	Port           int // of the server
}

// A Span is the time between two instants.
type Span struct{ BeginNS, EndNS int64 }

// Findings holds the results of a watch.
type Findings struct {
	Server, Client record.Seen
	Life           *record.Life // nil: not measured
}

// Of returns the findings about one end.
func (s *Findings) Of(end End) *record.Seen {
	if end == Server {
		return &s.Server
	}
	return &s.Client
}
