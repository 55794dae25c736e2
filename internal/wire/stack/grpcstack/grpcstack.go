// Package grpcstack is the stack `grpc`: grpc-go over HTTP/2, with or without TLS, used as
// its manual shows.
//
// The package adds little on purpose: the server is a grpc.Server, the client a
// grpc.ClientConn, and the stack measures grpc-go's defaults. Only the message limit is
// raised, to the limit of all stacks. Reflection and health checks are served beside the
// registered services, so that grpcurl and probes work.
//
// The package must not tune by itself: each change of a default is a named option.
package grpcstack

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/stack"
)

const (
	name           = "grpc"
	connectionsKey = "conns"
)

type adapter struct {
	stack.GRPCStack[grpc.ServerOption, grpc.DialOption]
}

// Stack is grpc-go.
//
// With one connection per call, smaller buffers and no resolver, retries, health checks
// and idle timer were measured too: none made a difference beyond chance.
var Stack = adapter{stack.NewGRPCStack(stack.GRPCAdapter[grpc.ServerOption, grpc.DialOption]{
	Info: stack.Info{
		Name: name, Summary: "gRPC by grpc-go: protobuf over HTTP/2",
		Options: append([]scenario.Option{{
			Key: connectionsKey, Parse: scenario.Count, Role: scenario.ConnectionsRole,
			Help: "N: N connections for all clients, taken in turns; wins over the connection mode",
		}, stack.PoolOption(), stack.CallerOption(name, generator.GRPC)}, tuningOptions()...),
		Protocol: "HTTP/2",
	},
	Protocol: stack.HTTP2, Stopped: grpc.ErrServerStopped,
	ServerCredentials: grpc.Creds, ClientCredentials: grpc.WithTransportCredentials,
	Timed: func(clock *stack.FirstByte) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithStatsHandler(firstByte{clock})}
	},
	Handshake: struct{ Name, Default string }{"grpc.ConnectionTimeout", "2m0s"},
	Plan:      plan,
})}

// plan reads a variant's options.
func plan(v scenario.Variant, o *scenario.Options) stack.GRPCPlan[grpc.ServerOption, grpc.DialOption] {
	changed, connections := readChanges(o), scenario.Value[int](o, connectionsKey)
	if stack.Pooled(v) && (!stack.HasOwnClient(v) || connections > 0) {
		o.Fail(errors.New("pool=auto chooses the connections of the stack's own client by itself: leave out conns and caller, or pool"))
	}
	return stack.GRPCPlan[grpc.ServerOption, grpc.DialOption]{
		Ends: changed.tuning(), Settings: []tuning.Setting{dialerSetting}, Connections: connections,
		NewServer: func(options ...grpc.ServerOption) stack.GRPCLibrary {
			changed.tiers.use()
			return grpc.NewServer(options...)
		},
		Connect: func(ctx context.Context, address string, dial stack.DialFunc, options ...grpc.DialOption) (stack.Client, error) {
			changed.tiers.use()
			return connect(ctx, address, dial, options...)
		},
	}
}

// dialerSetting describes the dialer in conn.go.
var dialerSetting = tuning.Setting{
	Side: tuning.Client, Name: "grpc.WithContextDialer", Value: "the laboratory's: net.Dialer, with TCP keepalive after 15s",
	Default: "net.Dialer, with TCP keepalive as the system has it", Why: "connections of all stacks are opened, counted and timed alike",
}
