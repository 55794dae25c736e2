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
	// Name is the word for it in scenarios and on the command line.
	Name() string
	// Describe says in one line what a call asks for.
	Describe() string
	// Options lists what a scenario may set behind the workload's name.
	Options() []Option
	// Sized tells whether the scenario's sizes say how big a call is. If not,
	// the options do.
	Sized() bool
	// Operations is how many operations the service has.
	Operations() int
	// Check says what is wrong with the parameters, or nothing.
	Check(Parameters) error
	// Register hands the handlers to a server. The parameters have been checked.
	Register(grpc.ServiceRegistrar, Parameters)
	// NewCaller makes one client. The job's parameters have been checked.
	NewCaller(grpc.ClientConnInterface, Job) Caller
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

// Unsized says why sizes are wrong where options decide how big a call is.
func (p Parameters) Unsized(name string) error {
	if p.RequestBytes != 0 || p.ResponseBytes != 0 {
		return fmt.Errorf("%s takes no sizes: its options say how big a call is; leave sizes out", name)
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
