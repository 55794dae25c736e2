// Package connectstack is two stacks on connect-go: `connect`, the Connect
// protocol over HTTP/2, and `grpc-h3`, the gRPC protocol over HTTP/3.
//
// connect-go is written for generated code that knows every message's type.
// Here any registered service is carried: a unary message travels through
// connect-go in an envelope (codec.go) and meets its type at either end, a
// stream's message is handed to connect-go's connection directly. Both stacks
// run the same code; they differ in one option of connect-go's client and in
// the version of HTTP underneath (package httpwire).
//
// A call passes through like this. The client puts deadline and metadata into
// an HTTP request (metadata.go) and posts it to the operation's full name; the
// server finds the operation's handler, which lets the registered implementation
// run and turns its error into one of connect-go's (status.go).
//
// The package must not know what the messages mean or that it is measured.
package connectstack

import (
	"context"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// Stack is one of the two.
type Stack int

// The stacks.
const (
	Connect Stack = iota // the Connect protocol over HTTP/2
	GRPC3                // the gRPC protocol over HTTP/3
)

var (
	_ stack.Stack            = Connect
	_ stack.SettingsReporter = Connect
)

// Info implements stack.Stack. HTTP/2 and HTTP/3 were made for one connection for
// all.
func (s Stack) Info() stack.Info {
	info := stack.Info{
		Name: "connect", Summary: "the Connect protocol by connect-go: binary protobuf over HTTP/2",
		Options: stack.TLSOptions(stack.OptionalTLS), Connection: scenario.Connection{Mode: scenario.Shared},
		Protocol: s.version().String(),
	}
	if s == GRPC3 {
		info.Name, info.Summary = "grpc-h3", "the gRPC protocol by connect-go, over HTTP/3 by quic-go"
		info.Options, info.QUIC = stack.TLSOptions(stack.AlwaysTLS), true
	}
	return info
}

func (s Stack) version() httpwire.Version {
	return [...]httpwire.Version{httpwire.HTTP2, httpwire.HTTP3}[s]
}

// Settings implements stack.SettingsReporter.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	plan, err := s.read(v)
	if err != nil {
		return nil, err
	}
	all := append(serverTuning().Settings(), s.clientTuning().Settings()...)
	return append(all, plan.Settings(t)...), nil
}

// serverTuning lists what is not connect-go's default in a handler, with the options
// that make it so.
func serverTuning() tuning.List[connect.HandlerOption] {
	var all tuning.List[connect.HandlerOption]
	shared(tuning.Server, func(s tuning.Setting, apply connect.Option) { all.Add(s, apply) })
	all.Add(tuning.Setting{Side: tuning.Server, Name: "connect.WithCodec(json)", Value: "package protojson, in an envelope", Default: "package protojson", Why: envelopeReason}, connect.WithCodec(json))
	return all
}

// clientTuning is the same of a client.
func (s Stack) clientTuning() tuning.List[connect.ClientOption] {
	var all tuning.List[connect.ClientOption]
	shared(tuning.Client, func(s tuning.Setting, apply connect.Option) { all.Add(s, apply) })
	all.Add(tuning.Setting{Side: tuning.Client, Name: "connect.WithAcceptCompression(gzip)", Value: "none", Default: "gzip", Why: "an answer must cost what it weighs, as on the other stacks"},
		connect.WithAcceptCompression("gzip", nil, nil))
	if s == GRPC3 {
		all.Add(tuning.Setting{Side: tuning.Client, Name: "connect.WithGRPC", Value: "set", Default: "the Connect protocol", Why: "it is what this stack is"}, connect.WithGRPC())
	}
	return all
}

const envelopeReason = "connect-go is written for generated code; here one handler carries any message"

// shared is what both ends set.
func shared(end string, add func(tuning.Setting, connect.Option)) {
	const oneLimit = "one message limit for all stacks"
	limit := strconv.Itoa(stack.MaxMessageBytes)
	add(tuning.Setting{Side: end, Name: "connect.WithReadMaxBytes", Value: limit, Default: "none", Why: oneLimit}, connect.WithReadMaxBytes(stack.MaxMessageBytes))
	add(tuning.Setting{Side: end, Name: "connect.WithSendMaxBytes", Value: limit, Default: "none", Why: oneLimit}, connect.WithSendMaxBytes(stack.MaxMessageBytes))
	add(tuning.Setting{Side: end, Name: "connect.WithCodec(proto)", Value: "package proto, in an envelope", Default: "package proto", Why: envelopeReason}, connect.WithCodec(binary))
}

// NewServer implements stack.Stack.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	plan, err := s.read(v)
	if err != nil {
		return nil, err
	}
	server := &server{services: map[string]grpc.ServiceInfo{}}
	server.HTTPServer = plan.NewServer(server.handler)
	return server, nil
}

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	plan, err := s.read(v)
	if err != nil {
		return nil, err
	}
	wire, err := plan.NewClient(ctx, target)
	if err != nil {
		return nil, err
	}
	return &client{HTTPClient: wire, options: s.clientTuning().Options()}, nil
}

func (s Stack) read(v scenario.Variant) (stack.HTTPPlan, error) {
	o := stack.ReadOptions(s, v)
	return stack.HTTPPlan{Name: s.Info().Name, Version: s.version(), Security: stack.SecurityOf(o)}, o.Err()
}
