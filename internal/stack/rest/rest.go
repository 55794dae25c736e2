// Package rest carries a service over HTTP/1.1 the way most services on the web
// are written: net/http at both ends, one POST a call, a path that names the
// operation, a body that is the message in binary protobuf.
//
// A call passes through like this. The client marshals the request, POSTs it on
// a connection of net/http's pool, and reads the answer whole. The server finds
// the operation by its path, reads the body whole, lets the registered handler
// run, and answers 200 with a message or another status with a google.rpc.Status.
// A side of a call that is one message is a plain body with its Content-Length;
// a side that is a stream is a chunked body of frames (frame.go). What curl must
// send to take part is in docs/wire-rest.md.
//
// The code is plain on purpose: bodies are read with io.ReadAll and nothing is
// reused between calls, because that is what the published studies measured.
// What cures its costs becomes an option, visible in the variant's name.
//
// The package must not know what the messages mean or that it is measured.
package rest

import (
	"context"
	"fmt"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

// Stack is REST over HTTP/1.1. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack   = Stack{}
	_ stack.Limited = Stack{}
)

// Name implements stack.Stack.
func (Stack) Name() string { return "rest" }

// Describe implements stack.Stack.
func (Stack) Describe() string {
	return "REST over HTTP/1.1 on net/http: POST /operation, the body is binary protobuf, a pool of connections"
}

// Options implements stack.Stack. There are none yet.
func (Stack) Options() []stack.Option { return nil }

// DefaultConnection is net/http's pool, which grows to one connection a client
// since HTTP/1.1 carries one call a connection at a time.
func (Stack) DefaultConnection() scenario.Connection {
	return scenario.Connection{Mode: scenario.Pool}
}

// NewServer implements stack.Stack.
func (Stack) NewServer(scenario.Variant) (stack.Server, error) { return newServer(), nil }

// NewClient implements stack.Stack.
func (Stack) NewClient(ctx context.Context, _ scenario.Variant, target stack.Target) (stack.Client, error) {
	c := newClient(target)
	if err := c.open(ctx, max(target.Connections, 1)); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("rest: open connections to %s: %w", target.Address, err)
	}
	return c, nil
}

// errBidi is what both ends say about bidirectional streams.
var errBidi = fmt.Errorf("rest: HTTP/1.1 as deployed answers after the request, not during it, so it has no bidirectional streams; tcp and grpc have: %w", stack.ErrUnsupported)

// Lacks implements stack.Limited.
func (Stack) Lacks(_ scenario.Variant, kind stack.Kind) error {
	if kind == stack.Bidi {
		return errBidi
	}
	return nil
}
