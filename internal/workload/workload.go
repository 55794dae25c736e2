// Package workload is the seam between what is asked and everything else: a
// workload is a generated service with its handlers, and a maker of the calls
// that clients send to it.
//
// Data passes through like this: the server's worker registers a workload with
// whatever carries it; each client of a trial gets one Caller, made from the
// trial's parameters and seed, which prepares what it sends before the window
// opens and then makes one call after another over the generated stub.
//
// This package and the workloads must not know which stack carries them, when
// calls are sent, or how long they took.
package workload

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"wirelab.dev/internal/scenario"
)

// Workload is a service under load.
type Workload interface {
	// Info says what is known before a call is made.
	Info() Info
	// Check says what is wrong with the parameters, or nothing.
	Check(Parameters) error
	// Register hands the handlers to a server. The parameters have been checked.
	Register(grpc.ServiceRegistrar, Parameters)
	// NewCaller makes one client. The job's parameters have been checked.
	NewCaller(grpc.ClientConnInterface, Job) Caller
}

// Info describes a workload.
type Info struct {
	Name    string            // the word for it in scenarios and on the command line
	Summary string            // one line: what a call asks for
	Options []scenario.Option // what may be set behind the name
	// Sized reports whether the scenario's sizes say how big a call is. If not,
	// the options do.
	Sized      bool
	Operations int // of the service
	// Sweep says that calls ask for nothing: a run asks how throughput follows
	// the calls in flight, and its report answers that.
	Sweep bool
}

// ReadOptions reads the options that the parameters set.
func ReadOptions(w Workload, p Parameters) *scenario.Options {
	info := w.Info()
	return scenario.ReadOptions("workload", scenario.Variant{Stack: info.Name, Options: p.Settings}, info.Options)
}

// Streaming is an optional ability of a Workload whose calls are not all unary.
type Streaming interface {
	// Streams describes those that callers with these parameters open.
	Streams(Parameters) []*grpc.StreamDesc
}

// Pooling is an optional ability of a Workload: where the parameters ask for it, who
// receives a stream owns the message that it receives into, and uses it again for
// the next one. Others receive each into a new one, as generated code does.
type Pooling interface {
	PoolsMessages()
}

// Parameters say what a call is.
type Parameters struct {
	RequestBytes  int // of payload; a wire adds its own
	ResponseBytes int
	Settings      []scenario.Setting // the options that are set
	// Definition is what a workload needs that no option holds; its form is
	// the workload's own.
	Definition string
	// PooledMessages is asked of workloads with the ability Pooling.
	PooledMessages bool
}

// CheckSizes says what is wrong with the sizes: where options decide how big a
// call is, that there are any, and else that one is above most.
func (p Parameters) CheckSizes(info Info, most int) error {
	for _, sizeBytes := range []int{p.RequestBytes, p.ResponseBytes} {
		switch {
		case !info.Sized && sizeBytes != 0:
			return fmt.Errorf("%s takes no sizes: its options say how big a call is; leave sizes out", info.Name)
		case sizeBytes < 0 || info.Sized && sizeBytes > most:
			return fmt.Errorf("%s: a payload of %d bytes: want 0 to %d", info.Name, sizeBytes, most)
		}
	}
	return nil
}

// Job is what one client of a trial has to do. Equal jobs send equal bytes.
type Job struct {
	Parameters
	Client int // from 0
	Seed   uint64
}

// Caller makes one call after another for one client. Only that client's
// goroutine uses it. The context of its first call outlives all of its calls,
// so that a stream may be opened under it and kept.
//
// A Caller may have a second method, Check() error, that judges the answer of
// the call which just ended well. Whoever takes the time calls it after the
// clock has stopped; an error makes the call a failed one.
type Caller interface {
	Call(context.Context) error
}
