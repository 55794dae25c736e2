// Package fake is the stack `fake`: no wire at all, but answers after a script.
//
// It is the known truth that the rest of wirelab is tested against. A delay, a
// stall or a fault that is written into the variant must come out of a trial as
// it went in; with an empty script a call costs next to nothing, so that what a
// trial then measures is wirelab itself.
//
// Data passes through like this: the client answers each call in its own
// process, with the request as the response. The server only listens and takes
// the connections that clients open and never use, so that worker processes,
// addresses, connection modes and counts work as with any stack.
//
// The package must not know what the messages mean. A method whose response is
// of another type than its request it cannot answer.
package fake

import (
	"context"
	"fmt"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

// Stack is the fake. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack       = Stack{}
	_ stack.KindLimiter = Stack{}
)

// Info describes the stack. One client for all keeps the time for all calls.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: "fake", Summary: "no wire: the client answers itself, after a script; for testing wirelab",
		Options: options, Connection: scenario.Connection{Mode: scenario.Shared},
	}
}

// NewServer makes a server that listens and says nothing.
func (Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if _, err := parseScript(v); err != nil {
		return nil, err
	}
	return newServer(), nil
}

// NewClient opens connections, to have them, and answers by the script.
func (Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	s, err := parseScript(v)
	if err != nil {
		return nil, err
	}
	c := newClient(s, stack.DialerOf(target))
	if err := c.open(ctx, target); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("fake: %w", err)
	}
	return c, nil
}

var errStreams = fmt.Errorf("fake: it answers unary calls only; tcp and grpc have streams: %w", stack.ErrUnsupported)

// CheckKind refuses all streams.
func (Stack) CheckKind(_ scenario.Variant, kind stack.Kind) error {
	if kind == stack.Unary {
		return nil
	}
	return errStreams
}
