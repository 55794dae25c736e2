// Package faststack is the stack `fastgrpc`: the library wirelab.dev/rpc/fastgrpc at one end or
// both, over HTTP/2, with or without TLS. It runs on its defaults except for the message limit.
//
// The wire is gRPC's own, so that either end may be grpc-go instead. This separates the cost of
// one end from the cost of its peer. The package must not know how the other library is used: it
// gets that stack, which makes the other end.
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
	// other is the stack of the end that is not fastgrpc, if the option ends asks for one.
	other stack.Stack
}

type own = stack.GRPCStack[fastgrpc.ServerOption, fastgrpc.ClientOption]

var _ stack.SettingsReporter = Stack{}

// The options and their values.
const (
	endsKey    = "ends" // which ends are fastgrpc
	both       = "both"
	clientOnly = "client"
	serverOnly = "server"

	codecKey   = "codec" // the bytes on the wire are the same
	codecProto = "proto"
	codecVT    = "vt"

	aliasKey = "alias"
)

// New makes the stack. other is the stack of the other end: `grpc`.
func New(other stack.Stack) Stack {
	return Stack{other: other, own: stack.NewGRPCStack(stack.GRPCAdapter[fastgrpc.ServerOption, fastgrpc.ClientOption]{
		Info: stack.Info{
			Name: "fastgrpc", Summary: "gRPC by wirelab's own library: protobuf over HTTP/2, the same bytes as grpc",
			Options: []scenario.Option{
				{Key: endsKey, Values: []string{both, clientOnly, serverOnly}, Default: both, Help: "which ends are fastgrpc; the other one is grpc-go"},
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
				Ends:      tuned(o),
				NewServer: func(options ...fastgrpc.ServerOption) stack.GRPCLibrary { return fastgrpc.NewServer(options...) },
				Connect:   connect,
			}
		},
	})}
}

// connect makes a client of one connection to an address, like a grpc.ClientConn.
func connect(ctx context.Context, address string, dial stack.DialFunc, options ...fastgrpc.ClientOption) (stack.Client, error) {
	c, err := fastgrpc.NewClient("passthrough:///"+address, append(options, fastgrpc.WithContextDialer(dial))...)
	if err != nil {
		return nil, err
	}
	if err := c.WaitReady(ctx); err != nil {
		_ = c.Close() // err is the error to report
		return nil, err
	}
	return c, nil
}

func has(end string, v scenario.Variant) bool {
	ends, set := v.Get(endsKey)
	return !set || ends == both || ends == end
}

// others returns the other stack's variant for the end that is not fastgrpc. It has the options
// that both ends must share, and the codec closest to fastgrpc's.
func (s Stack) others(v scenario.Variant) scenario.Variant {
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

// NewServer makes a server of the library that the variant uses at this end.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	server, err := s.own.NewServer(v)
	if err == nil && !has(serverOnly, v) {
		return s.other.NewServer(s.others(v))
	}
	return server, err
}

// NewClient makes a client. It opens the connections that are kept, one after the other.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	if err := s.Check(v); err != nil {
		return nil, err
	}
	if !has(clientOnly, v) {
		return s.other.NewClient(ctx, s.others(v), target)
	}
	return s.own.NewClient(ctx, v, target)
}

// The library skips this wrapper, which needs to see only a connection's first bytes.
var _ fastgrpc.Transparent = (*conn.CleartextConn)(nil)

// Settings lists the settings that differ from fastgrpc's defaults, or from grpc-go's at its end.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	all, err := s.own.Settings(v, t)
	if err != nil || has(serverOnly, v) && has(clientOnly, v) {
		return all, err
	}
	tuned, ok := s.other.(stack.SettingsReporter)
	if !ok {
		return nil, fmt.Errorf("the stack %s does not report its settings", s.other.Info().Name)
	}
	others, err := tuned.Settings(s.others(v), t)
	if err != nil {
		return nil, err
	}
	if has(clientOnly, v) {
		return append(tuning.At(tuning.Server, others), tuning.At(tuning.Client, all)...), nil
	}
	return append(tuning.At(tuning.Server, all), tuning.At(tuning.Client, others)...), nil
}

type (
	serverOption = tuning.Option[fastgrpc.ServerOption]
	clientOption = tuning.Option[fastgrpc.ClientOption]
)

// tuned lists the settings of both ends that are not fastgrpc's default, with its options.
func tuned(o *scenario.Options) (ends tuning.Ends[fastgrpc.ServerOption, fastgrpc.ClientOption]) {
	limit := func(library string, server serverOption, name string, client grpc.CallOption) {
		ends.Add(tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: library, Why: stack.WhyLimit},
			server, clientOption{Name: name, Apply: fastgrpc.WithDefaultCallOptions(client)})
	}
	limit("4194304", serverOption{Name: "fastgrpc.MaxRecvMsgSize", Apply: fastgrpc.MaxRecvMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallRecvMsgSize", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	limit("2147483647", serverOption{Name: "fastgrpc.MaxSendMsgSize", Apply: fastgrpc.MaxSendMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallSendMsgSize", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	if o.Text(codecKey) == codecVT {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: stack.WhyOption(codecKey)},
			serverOption{Name: "fastgrpc.VTProto", Apply: fastgrpc.VTProto()},
			clientOption{Name: "fastgrpc.WithVTProto", Apply: fastgrpc.WithVTProto()})
	}
	if o.On(aliasKey) {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: stack.WhyOption(aliasKey)},
			serverOption{Name: "fastgrpc.AliasRequests", Apply: fastgrpc.AliasRequests()},
			clientOption{Name: "fastgrpc.WithAliasedResponses", Apply: fastgrpc.WithAliasedResponses()})
	}
	return ends
}
