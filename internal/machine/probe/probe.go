// Package probe reads what the kernel and the Go runtime measure about a process: CPU time, memory,
// context switches, page faults, garbage collections, and how long goroutines waited to run.
//
//  1. [ReadSelf] reads the calling process. [ReadProcess] reads another process.
//  2. A [Sampler] takes such a reading periodically until the worker ends, because a
//     worker does not know when the measured window will be.
//  3. The worker sends the resulting [Series] as JSON to the lab, which knows the window.
//  4. [Series.Between] returns the part of the series within the window.
//
// Instants come from internal/base/clock: all processes of a machine share this clock.
//
// The package must not know what the process was doing: it knows neither stacks nor loads.
//
// Glossary
//
//	counter  a figure that only grows; the difference of two readings is the growth between them
//	gauge    a figure that may rise and fall, such as the number of goroutines
//	fault    the process touched a page of memory that the kernel had to provide first;
//	         a minor fault reads nothing from a disk
//	switch   a thread leaves its CPU: voluntarily, to wait, or involuntarily, when
//	         the scheduler runs another thread
package probe

import "wirelab.dev/internal/data/record"

// An End is one end of a connection: the server's or the client's.
type End int

// The two values of End.
const (
	Server End = iota
	Client
)

// A Watch observes a trial's two processes from outside, and starts before them. It slows the
// processes down, so latencies measured in such a trial are not used.
type Watch interface {
	// SetProcess sets the process at an end. It replaces an earlier process.
	SetProcess(end End, pid int) error
	// Coverage returns how the probe works here, and what it misses.
	Coverage() Coverage
	// Stop ends the watch, and returns its findings within the window.
	Stop(MeasuredWindow) (Findings, error)
}

// A PortWatch is a Watch that recognises the sockets of a trial by the server's port.
type PortWatch interface {
	Watch
	// SetServerPort sets the port of the server.
	SetServerPort(port int) error
}

// A Coverage says how a probe works on this machine.
type Coverage struct {
	Method  string   `json:"method"`
	Missing []string `json:"missing,omitempty"` // what is not measured, with the reason and a remedy
}

// A MeasuredWindow holds a trial's measured window, and the calls that the workers recorded in it.
type MeasuredWindow struct {
	Span
	// Calls holds the start and the duration of each call. Handled holds the start and the duration
	// of each run of the server's handler. Both are empty except for the probe record.ProbeLife.
	Calls, Handled [][2]int64
	Port           int // the server's port
}

// A Span is the time between two instants.
type Span struct{ BeginNS, EndNS int64 }

// Findings holds the results of a Watch.
type Findings struct {
	Server, Client record.Seen
	Life           *record.Life // the stages of calls; nil: not measured
}

// ForEnd returns the findings about the process at one end.
func (s *Findings) ForEnd(end End) *record.Seen {
	if end == Server {
		return &s.Server
	}
	return &s.Client
}
