// Package probe reads what the kernel and the Go runtime measure about a process: CPU time, memory,
// context switches, page faults, garbage collections, and how long goroutines waited to run.
//
//  1. [ReadSelf] reads the calling process. [ReadProcess] reads another process.
//  2. A [Sampler] takes such a reading periodically until the worker ends, because a
//     worker does not know when the measured window will be.
//  3. The worker sends the resulting [Series] as JSON to the lab, which knows the window.
//  4. [Series.Between] returns the part of the series within the window.
//
// Instants come from internal/base/clock, which all processes of a machine share.
//
// The package must not know what the process does, nor stacks or loads.
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

import (
	"os"

	"wirelab.dev/internal/data/record"
)

// An End is the server or the client of a connection.
type End int

// The two values of End.
const (
	Server End = iota
	Client
)

// A Watch observes the server's and the client's process of a trial from outside. A Watch starts
// before these processes. It slows the processes down, so the trial's latencies are not used.
type Watch interface {
	// AddProcess adds a process to the server or the client. It is observed from now on, with the
	// processes that it starts (see Coverage.Unfollowed).
	AddProcess(end End, pid int) error
	// Coverage returns how the probe works on this machine, and what it cannot measure.
	Coverage() Coverage
	// Stop ends the watch and returns its findings for the window.
	Stop(MeasuredWindow) (Findings, error)
}

// A PortWatch is a Watch that uses the server's port to recognise the trial's sockets.
type PortWatch interface {
	Watch
	// SetServerPort sets the port of the server.
	SetServerPort(port int) error
}

// A RequestWatch is a Watch that counts the requests that a user's service has not read.
type RequestWatch interface {
	Watch
	WatchRequests(port int)
}

// A TraceReader is a Watch that reads the execution traces that the workers write of themselves.
type TraceReader interface {
	Watch
	// TraceFile returns the file into which the worker of an end writes its traces.
	TraceFile(end End) *os.File
}

// A Coverage describes how a probe works on this machine.
type Coverage struct {
	Method string `json:"method"`
	// Figures that are not measured, each with the reason and a remedy.
	Missing []string `json:"missing,omitempty"`
	// Unfollowed says what is not observed of the processes that a watched process starts, and why. It
	// is empty if all is. It matters only for services, which may start processes.
	Unfollowed string `json:"unfollowed,omitempty"`
}

// A MeasuredWindow is a trial's measured window, with the calls that the workers recorded in it.
type MeasuredWindow struct {
	Span
	// Calls holds the start and duration of each call. Handled holds the start and duration of each
	// run of the server's handler. Only the probe record.ProbeLife fills Calls and Handled.
	Calls, Handled [][2]int64
	Port           int // port of the server
}

// A Span is the time between two instants.
type Span struct {
	BeginNS int64 `json:"begin_ns"`
	EndNS   int64 `json:"end_ns"`
	// Alone says that the load ran in this time alone, and not before or after it.
	Alone bool `json:"alone,omitempty"`
}

// Findings holds the results of a Watch.
type Findings struct {
	Server, Client record.Seen
	Life           *record.Life // stages of calls; nil if not measured
}

// ForEnd returns the findings about the process of the server or the client.
func (s *Findings) ForEnd(end End) *record.Seen {
	if end == Server {
		return &s.Server
	}
	return &s.Client
}
