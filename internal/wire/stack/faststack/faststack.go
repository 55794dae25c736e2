// Package faststack is the stack `fastgrpc`. One or both ends use the library
// wirelab.dev/rpc/fastgrpc over HTTP/2, with or without TLS. Only the message limit differs from
// the library's defaults.
//
// The wire is the same as gRPC's, so one end may use grpc-go instead. Such variants show the cost
// of fastgrpc at each end separately. The package must not know how the other library is used: New
// gets the stack that makes the other end.
package faststack

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// Stack is fastgrpc.
type Stack struct {
	own
	// other makes the end that does not use fastgrpc, if the option ends selects one.
	other stack.Stack
}

type own = stack.GRPCStack[fastgrpc.ServerOption, fastgrpc.ClientOption]

var _ stack.SettingsReporter = Stack{}

const (
	endsKey    = "ends" // the ends that use fastgrpc: both, server or client
	bothEnds   = "both"
	clientOnly = "client"
	serverOnly = "server"

	codecKey   = "codec" // does not change the bytes on the wire
	codecProto = "proto"
	codecVT    = "vt"

	aliasKey = "alias"
)

// New makes the stack. other is the stack `grpc`, for the other end.
func New(other stack.Stack) Stack {
	return Stack{other: other, own: stack.NewGRPCStack(stack.GRPCAdapter[fastgrpc.ServerOption, fastgrpc.ClientOption]{
		Info: stack.Info{
			Name: "fastgrpc", Summary: "gRPC by wirelab's own library: protobuf over HTTP/2, the same bytes as grpc",
			Options: []scenario.Option{
				{Key: endsKey, Values: []string{bothEnds, clientOnly, serverOnly}, Default: bothEnds, Help: "the ends that use fastgrpc; the other end uses grpc-go"},
				{Key: codecKey, Values: []string{codecProto, codecVT}, Default: codecProto, Help: "proto: package proto; vt: vtprotobuf, for messages that have its methods"},
				{Key: aliasKey, Values: []string{"off", "on"}, Default: "off", Help: "long bytes fields point into the receive buffer instead of being copied: in requests, and in the answers of streams"},
				stack.CallerOption("own", generator.GRPC),
			},
			Protocol: "HTTP/2",
		},
		Protocol: stack.HTTP2, Stopped: fastgrpc.ErrServerStopped,
		ServerCredentials: fastgrpc.Creds, ClientCredentials: fastgrpc.WithTransportCredentials,
		Timed: func(clock *stack.FirstByte) []fastgrpc.ClientOption {
			return []fastgrpc.ClientOption{fastgrpc.WithStatsHandler(clock)}
		},
		Handshake: struct{ Name, Default string }{"fastgrpc.HandshakeTimeout", "20s"},
		Plan: func(v scenario.Variant, o *scenario.Options) stack.GRPCPlan[fastgrpc.ServerOption, fastgrpc.ClientOption] {
			if caller := o.Text(stack.CallerKey); !stack.HasOwnClient(v) && o.Text(endsKey) == clientOnly {
				o.Fail(fmt.Errorf("caller=%s: with ends=client neither end is fastgrpc; use grpc:caller=%s", caller, caller))
			}
			return stack.GRPCPlan[fastgrpc.ServerOption, fastgrpc.ClientOption]{
				Ends:      tunedOptions(o),
				NewServer: func(options ...fastgrpc.ServerOption) stack.GRPCLibrary { return fastgrpc.NewServer(options...) },
				Connect:   connect,
			}
		},
	})}
}

// connect makes a client with one connection to an address. It is similar to a grpc.ClientConn.
func connect(ctx context.Context, address string, dial stack.DialFunc, options ...fastgrpc.ClientOption) (stack.Client, error) {
	c, err := fastgrpc.NewClient("passthrough:///"+address, append(options, fastgrpc.WithContextDialer(dial))...)
	if err != nil {
		return nil, err
	}
	if err := c.WaitReady(ctx); err != nil {
		_ = c.Close() // ignore this error: err is the cause
		return nil, err
	}
	return c, nil
}

func hasOption(end string, v scenario.Variant) bool {
	ends, set := v.Get(endsKey)
	return !set || ends == bothEnds || ends == end
}

// otherVariant returns the other stack's variant for the end that does not use fastgrpc. It keeps
// the options that both ends must share, and selects the codec that is most similar to fastgrpc's.
func (s Stack) otherVariant(v scenario.Variant) scenario.Variant {
	own := scenario.Variant{Stack: s.other.Info().Name}
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

// NewServer makes a server of the library that the variant selects for this end.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	server, err := s.own.NewServer(v)
	if err == nil && !hasOption(serverOnly, v) {
		return s.other.NewServer(s.otherVariant(v))
	}
	return server, err
}

// NewClient makes a client and opens its kept connections, one after another.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	if err := s.Check(v); err != nil {
		return nil, err
	}
	if !hasOption(clientOnly, v) {
		return s.other.NewClient(ctx, s.otherVariant(v), target)
	}
	return s.own.NewClient(ctx, v, target)
}

// CleartextConn checks only a connection's first bytes, so fastgrpc may bypass it later.
var _ fastgrpc.Transparent = (*conn.CleartextConn)(nil)

// Settings lists settings that differ from the defaults of the library at each end.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	all, err := s.own.Settings(v, t)
	if err != nil || hasOption(serverOnly, v) && hasOption(clientOnly, v) {
		return all, err
	}
	tuned, ok := s.other.(stack.SettingsReporter)
	if !ok {
		return nil, fmt.Errorf("the stack %s does not report its settings", s.other.Info().Name)
	}
	others, err := tuned.Settings(s.otherVariant(v), t)
	if err != nil {
		return nil, err
	}
	if hasOption(clientOnly, v) {
		return append(tuning.SettingsOf(tuning.Server, others), tuning.SettingsOf(tuning.Client, all)...), nil
	}
	return append(tuning.SettingsOf(tuning.Server, all), tuning.SettingsOf(tuning.Client, others)...), nil
}

type (
	serverOption = tuning.Option[fastgrpc.ServerOption]
	clientOption = tuning.Option[fastgrpc.ClientOption]
)

// tunedOptions returns the options and settings that differ from fastgrpc's defaults.
func tunedOptions(o *scenario.Options) (ends tuning.Ends[fastgrpc.ServerOption, fastgrpc.ClientOption]) {
	limit := func(library string, server serverOption, name string, client grpc.CallOption) {
		ends.Add(tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: library, Why: stack.MessageLimitReason},
			server, clientOption{Name: name, Apply: fastgrpc.WithDefaultCallOptions(client)})
	}
	limit("4194304", serverOption{Name: "fastgrpc.MaxRecvMsgSize", Apply: fastgrpc.MaxRecvMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallRecvMsgSize", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	limit("2147483647", serverOption{Name: "fastgrpc.MaxSendMsgSize", Apply: fastgrpc.MaxSendMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallSendMsgSize", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	if o.Text(codecKey) == codecVT {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: stack.OptionReason(codecKey)},
			serverOption{Name: "fastgrpc.VTProto", Apply: fastgrpc.VTProto()},
			clientOption{Name: "fastgrpc.WithVTProto", Apply: fastgrpc.WithVTProto()})
	}
	if o.On(aliasKey) {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: stack.OptionReason(aliasKey)},
			serverOption{Name: "fastgrpc.AliasRequests", Apply: fastgrpc.AliasRequests()},
			clientOption{Name: "fastgrpc.WithAliasedResponses", Apply: fastgrpc.WithAliasedResponses()})
	}
	return ends
}
