// Package faststack is the stack `fastgrpc`: the library wirelab.dev/rpc/fastgrpc at one
// end or at both, over HTTP/2, with or without TLS.
//
// The wire is gRPC's own, byte for byte what the stack `grpc` understands, so that
// either end may be grpc-go instead. This separates the cost of one end from the cost
// of its peer. The library runs on its defaults; only the message limit is raised, to
// the limit of all stacks. Reflection and health checks are served as by `grpc`.
//
// The package must not know how the other library is used: it gets that stack, which
// makes the other end.
package faststack

import (
	"context"
	"fmt"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// Stack is fastgrpc.
type Stack struct {
	// Other is the stack of the end that is not fastgrpc, if the option ends asks
	// for one: `grpc`.
	Other stack.Stack
}

var (
	_ stack.Stack            = Stack{}
	_ stack.SettingsReporter = Stack{}
	_ stack.KindLimiter      = Stack{}
)

const name = "fastgrpc"

// The options.
const (
	endsKey  = "ends"
	aliasKey = "alias"
	codecKey = "codec"
)

// The ends that may be fastgrpc.
const (
	both       = "both"
	clientOnly = "client"
	serverOnly = "server"
)

// The codecs. The bytes on the wire are the same.
const (
	codecProto = "proto"
	codecVT    = "vt"
)

// Info describes the stack. HTTP/2 is designed for one shared connection.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "gRPC by wirelab's own library: protobuf over HTTP/2, the same bytes as grpc",
		Options: append([]scenario.Option{
			{Key: endsKey, Values: []string{both, clientOnly, serverOnly}, Default: both, Help: "which ends are fastgrpc; the other one is grpc-go"},
			{Key: codecKey, Values: []string{codecProto, codecVT}, Default: codecProto, Help: "proto: package proto; vt: vtprotobuf, for messages that have its methods"},
			{Key: aliasKey, Values: []string{"off", "on"}, Default: "off", Help: "long bytes fields point into the receive buffer instead of being copied: in requests, and in the answers of streams"},
			stack.CallerOption("own", generator.GRPC),
		}, stack.TLSOptions(stack.OptionalTLS)...),
		Connection: scenario.Connection{Mode: scenario.Shared}, Protocol: "HTTP/2",
	}
}

// settings are a variant's options.
type settings struct {
	ends     string
	codec    string
	alias    bool
	security stack.Security
}

func (s Stack) read(v scenario.Variant) (settings, error) {
	o := stack.ReadOptions(s, v)
	own := settings{
		ends: o.Text(endsKey), codec: o.Text(codecKey), alias: o.On(aliasKey), security: stack.SecurityOf(o),
	}
	stack.CheckCallerSecurity(v, o, own.security)
	if caller, _ := v.Get(stack.CallerKey); !stack.HasOwnClient(v) && own.ends == clientOnly {
		o.Fail(fmt.Errorf("caller=%s: with ends=client neither end is fastgrpc; use grpc:caller=%s", caller, caller))
	}
	return own, o.Err()
}

// CheckKind implements stack.KindLimiter: others make unary calls.
func (Stack) CheckKind(v scenario.Variant, kind stack.Kind) error {
	return stack.CheckCallerKind(v, kind)
}

// others returns the other stack's variant for the end that is not fastgrpc: the options
// on which both ends must agree, and its codec closest to the library's.
func (s Stack) others(v scenario.Variant) scenario.Variant {
	own := scenario.Variant{Stack: s.Other.Info().Name}
	for _, o := range stack.TLSOptions(stack.OptionalTLS) {
		if value, set := v.Get(o.Key); set {
			own = own.With(o.Key, value)
		}
	}
	if codec, _ := v.Get(codecKey); codec == codecVT {
		own = own.With(codecKey, "vt2")
	}
	return own
}

// NewServer makes a server of the library that the variant uses at this end.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	if own.ends == clientOnly {
		return s.Other.NewServer(s.others(v))
	}
	return stack.NewGRPCServer(stack.GRPCServerPlan[*fastgrpc.Server, fastgrpc.ServerOption]{
		Name: name, Security: own.security, Stopped: fastgrpc.ErrServerStopped,
		New: fastgrpc.NewServer, Options: own.tuning().Server.Options(), Credentials: fastgrpc.Creds,
	}), nil
}

// NewClient makes a client. It opens the connections that are kept, one after the other.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	if own.ends == serverOnly {
		return s.Other.NewClient(ctx, s.others(v), target)
	}
	connector, err := stack.NewConnector(s, v, own.security, target, stack.HTTP2)
	if err != nil {
		return nil, err
	}
	end := &clientEnd{settings: own, Connector: connector}
	return connector.NewClient(ctx, end.open)
}
