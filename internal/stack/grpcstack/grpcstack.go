// Package grpcstack is the stack `grpc`: grpc-go over HTTP/2, with or without TLS, the
// way its manual shows it.
//
// There is next to nothing here, and that is the point: the server is a
// grpc.Server, the client a grpc.ClientConn, and what the stack measures is
// grpc-go's own defaults. Only the message limit is raised, to the one of all
// stacks. Reflection and health are served beside the registered services, so
// that grpcurl and probes can talk to it.
//
// The package must not tune: a cure is an option with a name.
package grpcstack

import (
	"context"
	"slices"
	"strconv"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

// Stack is grpc-go. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack      = Stack{}
	_ stack.Connecting = Stack{}
	_ stack.Lasting    = Stack{}
	_ stack.Tuned      = Stack{}
)

const connectionsKey = "conns"

// Name is `grpc`.
func (Stack) Name() string { return "grpc" }

// Describe says what goes over the wire.
func (Stack) Describe() string { return "gRPC by grpc-go: protobuf over HTTP/2" }

// Options lists what cures or changes it.
func (Stack) Options() []stack.Option {
	return slices.Concat([]stack.Option{{
		Key:  connectionsKey,
		Help: "N: N connections for all clients, taken in turns; wins over the connection mode",
	}}, leverOptions(), stack.TLSOptions(stack.OptionalTLS))
}

// DefaultConnection is one connection for all: HTTP/2 was made for it.
func (Stack) DefaultConnection() scenario.Connection {
	return scenario.Connection{Mode: scenario.Shared}
}

// Connection is the pool that the option conns asks for.
func (Stack) Connection(v scenario.Variant) (scenario.Connection, bool) {
	conns, err := stack.Count(v, connectionsKey)
	if err != nil || conns == 0 {
		return scenario.Connection{}, false
	}
	return scenario.Connection{Mode: scenario.Pool, Size: conns}, true
}

// NewServer makes a grpc.Server.
func (Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if _, err := stack.Count(v, connectionsKey); err != nil {
		return nil, err
	}
	security, err := stack.SecurityOf(v, stack.OptionalTLS)
	if err != nil {
		return nil, err
	}
	levers, err := readLevers(v)
	if err != nil {
		return nil, err
	}
	return newServer(security, levers), nil
}

// NewClient opens the connections that are kept, one after the other.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	own, err := stack.Count(v, connectionsKey)
	if err != nil {
		return nil, err
	}
	if own > 0 {
		target.Connections = own
	}
	if err := s.LacksLifecycle(v, target.Lifecycle); err != nil {
		return nil, err
	}
	l, err := newLine(v, target)
	if err != nil {
		return nil, err
	}
	if target.Lifecycle == stack.Kept {
		return l.pool(ctx)
	}
	if err := l.rehearse(ctx); err != nil {
		return nil, l.explain(ctx, err)
	}
	return stack.NewPerCall(l.single), nil
}

// LacksLifecycle says what TCP has not.
func (Stack) LacksLifecycle(v scenario.Variant, l stack.Lifecycle) error {
	security, err := stack.SecurityOf(v, stack.OptionalTLS)
	if err != nil {
		return err
	}
	return security.LacksOverTLS(v, l)
}

// Settings lists the few things that are not grpc-go's defaults. A connection a
// call was measured with smaller buffers, without a resolver, retries, health
// checks and idle timer, too: nothing of that could be told from chance.
func (Stack) Settings(scenario.Variant) []stack.Setting {
	limit := strconv.Itoa(stack.MaxMessageBytes)
	const same = "one limit for all stacks"
	return []stack.Setting{
		{Side: "both", Name: "MaxRecvMsgSize", Value: limit, Default: "4194304", Why: same},
		{Side: "both", Name: "MaxSendMsgSize", Value: limit, Default: "2147483647", Why: same},
		{Side: "client", Name: "WithNoProxy", Value: "set", Default: "the environment's proxy", Why: "a proxy would be measured in place of the wire"},
	}
}
