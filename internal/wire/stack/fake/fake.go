// Package fake is the stack `fake`. It has no wire: the client answers calls itself,
// as a script says.
//
// It is the known truth that tests hold wirelab against. A trial must find the delay,
// stall or fault that the variant sets. With an empty script a call costs next to
// nothing, so that a trial measures wirelab itself.
//
//  1. The variant's options are a script.
//  2. The client answers each call in its own process, with the request as the
//     response, after what the script does to it.
//  3. The server only accepts the connections that clients open and never use, so that
//     worker processes, addresses, connection modes and counts work as with any stack.
//
// The package must not know what the messages mean. It cannot answer a method whose
// response has another type than its request.
package fake

import (
	"context"
	"fmt"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
)

// Stack is the fake stack. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack       = Stack{}
	_ stack.KindLimiter = Stack{}
)

// Info describes the stack. All calls share one client, whose timekeeper serves them all.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: "fake", Summary: "no wire: the client answers itself, by a script; for testing wirelab",
		Options: options, Connection: scenario.Connection{Mode: scenario.Shared},
	}
}

// NewServer makes a server that accepts connections and sends nothing.
func (Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if _, err := parseScript(v); err != nil {
		return nil, err
	}
	return newServer(), nil
}

// NewClient opens connections that it does not use, and answers by the script.
func (Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	s, err := parseScript(v)
	if err != nil {
		return nil, err
	}
	c := newClient(s, target.DialerOrNew())
	if err := c.open(ctx, target); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("fake: %w", err)
	}
	return c, nil
}

var errStreams = fmt.Errorf("fake: it answers unary calls only; tcp and grpc have streams: %w", stack.ErrUnsupported)

// CheckKind returns an error for streams.
func (Stack) CheckKind(_ scenario.Variant, kind stack.Kind) error {
	if kind == stack.Unary {
		return nil
	}
	return errStreams
}
