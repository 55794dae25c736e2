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
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/stack"
)

// Stack is grpc-go. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack             = Stack{}
	_ stack.ConnectionChooser = Stack{}
	_ stack.SettingsReporter  = Stack{}
	_ stack.KindLimiter       = Stack{}
)

const (
	name           = "grpc"
	connectionsKey = "conns"
)

// Info describes the stack. HTTP/2 is designed for one shared connection.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "gRPC by grpc-go: protobuf over HTTP/2",
		Options: slices.Concat([]scenario.Option{{
			Key: connectionsKey, Parse: scenario.Count, Role: scenario.ConnectionsRole,
			Help: "N: N connections for all clients, taken in turns; wins over the connection mode",
		}, stack.PoolOption(), stack.CallerOption(name, generator.GRPC)}, tuningOptions(), stack.TLSOptions(stack.OptionalTLS)),
		Connection: scenario.Connection{Mode: scenario.Shared}, Protocol: "HTTP/2",
	}
}

// ConnectionFor implements stack.ConnectionChooser for the options conns and pool.
func (s Stack) ConnectionFor(v scenario.Variant) (mode scenario.Connection, fixed bool) {
	if stack.Pooled(v) {
		return stack.AutoConnection, true
	}
	if conns := scenario.Value[int](stack.ReadOptions(s, v), connectionsKey); conns > 0 {
		return scenario.Connection{Mode: scenario.Pool, Size: conns}, true
	}
	return s.Info().Connection, false
}

// CheckKind implements stack.KindLimiter: others make unary calls.
func (Stack) CheckKind(v scenario.Variant, kind stack.Kind) error {
	return stack.CheckCallerKind(v, kind)
}

// options are a variant's parsed options.
type options struct {
	changes
	connections int // 0: as many as the target says
	security    stack.Security
}

func (s Stack) read(v scenario.Variant) (options, error) {
	o := stack.ReadOptions(s, v)
	read := options{changes: readChanges(o), connections: scenario.Value[int](o, connectionsKey), security: stack.SecurityOf(o)}
	stack.CheckCallerSecurity(v, o, read.security)
	if stack.Pooled(v) {
		if !stack.HasOwnClient(v) || read.connections > 0 {
			return read, fmt.Errorf("variant %s: pool=auto chooses the connections of the stack's own client by itself: leave out conns and caller, or pool", v)
		}
	}
	return read, o.Err()
}

// NewServer makes a grpc.Server.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	read, err := s.read(v)
	if err != nil {
		return nil, err
	}
	return stack.NewGRPCServer(stack.GRPCServerPlan[*grpc.Server, grpc.ServerOption]{
		Name: name, Security: read.security, Stopped: grpc.ErrServerStopped,
		New: func(options ...grpc.ServerOption) *grpc.Server {
			read.tiers.use()
			return grpc.NewServer(options...)
		},
		Options: read.tuning().Server.Options(), Credentials: grpc.Creds,
	}), nil
}

// NewClient makes a client. It opens the connections that are kept, one after the other.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	read, err := s.read(v)
	if err != nil {
		return nil, err
	}
	if read.connections > 0 {
		target.Connections = read.connections
	}
	connector, err := stack.NewConnector(s, v, read.security, target, stack.HTTP2)
	if err != nil {
		return nil, err
	}
	end := &clientEnd{Connector: connector, changes: read.changes}
	if stack.Pooled(v) {
		return connector.NewPool(ctx, end.open)
	}
	return connector.NewClient(ctx, end.open)
}

// Settings lists the settings that are not grpc-go's default. With one connection a call,
// smaller buffers and no resolver, retries, health checks and idle timer were measured
// too: none made a difference beyond chance.
func (s Stack) Settings(v scenario.Variant, _ stack.Target) ([]tuning.Setting, error) {
	read, err := s.read(v)
	if err != nil {
		return nil, err
	}
	ends := read.tuning()
	all := append(ends.Server.Settings(), ends.Client.Settings()...)
	if read.security.On {
		all = append(all, stack.HandshakeSetting("grpc.ConnectionTimeout", "2m0s"))
	}
	return append(all, dialerSetting), nil
}

// dialerSetting is what conn.go does with connections.
var dialerSetting = tuning.Setting{
	Side: tuning.Client, Name: "grpc.WithContextDialer", Value: "the laboratory's: net.Dialer, with TCP keepalive after 15s",
	Default: "net.Dialer, with TCP keepalive as the system has it", Why: "connections of all stacks are opened, counted and timed alike",
}
