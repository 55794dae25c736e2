// Package rest carries a service over HTTP the way most services on the web are
// written: net/http at both ends, one POST a call, a path that names the
// operation, a body that is the message. Its stacks differ in the version of
// HTTP and in nothing else: one room for what a request means, three ways to
// carry it (package httpwire).
//
// A call passes through like this. The client marshals the request, POSTs it on
// a connection, and reads the answer whole. The server finds the operation by
// its path, reads the body whole, lets the registered handler run, and answers
// 200 with a message or another status with a google.rpc.Status. A side of a
// call that is one message is a plain body with its Content-Length; a side that
// is a stream is a body of frames (frame.go). Messages are binary protobuf or
// JSON (codec.go). What curl must send to take part is in docs/wire-http.md.
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
	"net/http"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// Stack is one of this package's.
type Stack int

// The stacks. The zero value is what the published studies call REST.
const (
	REST Stack = iota // HTTP/1.1 in cleartext, with binary protobuf
	H1
	H2
	H3
)

var (
	_ stack.Stack            = REST
	_ stack.KindLimiter      = REST
	_ stack.SettingsReporter = REST
)

// Info implements stack.Stack. Over HTTP/1.1 the connections are net/http's pool,
// which grows to one a client since each carries one call at a time; what came
// later was made to share one.
func (s Stack) Info() stack.Info {
	info := stack.Info{
		Name: [...]string{"rest", "h1", "h2", "h3"}[s],
		Summary: [...]string{
			"REST over HTTP/1.1 on net/http: POST /operation, the body is binary protobuf, a pool of connections",
			"REST over HTTP/1.1 on net/http, with TLS and JSON where asked for; a pool of connections",
			"REST over HTTP/2 on net/http: h1's requests as streams of one shared connection",
			"REST over HTTP/3 on quic-go: h1's requests as streams of one shared QUIC connection",
		}[s],
		Connection: scenario.Connection{Mode: scenario.Shared}, QUIC: s == H3, Protocol: s.version().String(),
	}
	if s.version() == httpwire.HTTP1 {
		info.Connection.Mode = scenario.Pool
	}
	if s == REST {
		return info
	}
	encryption := stack.OptionalTLS
	if s == H3 {
		encryption = stack.AlwaysTLS
	}
	codecs := scenario.Option{Key: codecKey, Values: []string{protobuf.name, json.name}, Default: protobuf.name, Help: "the form of messages; a server takes all and answers in kind"}
	info.Options = append([]scenario.Option{codecs}, stack.TLSOptions(encryption)...)
	return info
}

// read reads a variant's options, of which REST has none.
func (s Stack) read(v scenario.Variant) (plan stack.HTTPPlan, c *codec, err error) {
	o := stack.ReadOptions(s, v)
	plan, c = stack.HTTPPlan{Name: s.Info().Name, Version: s.version()}, protobuf
	if s != REST {
		plan.Security = stack.SecurityOf(o)
		if o.Text(codecKey) == json.name {
			c = json
		}
	}
	return plan, c, o.Err()
}

func (s Stack) version() httpwire.Version {
	return [...]httpwire.Version{httpwire.HTTP1, httpwire.HTTP1, httpwire.HTTP2, httpwire.HTTP3}[s]
}

// NewServer implements stack.Stack.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	plan, _, err := s.read(v)
	if err != nil {
		return nil, err
	}
	return plan.NewServer(func(methods *stack.Methods) (http.Handler, error) { return newHandler(methods.All()) }), nil
}

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	plan, codec, err := s.read(v)
	if err != nil {
		return nil, err
	}
	wire, err := plan.NewClient(ctx, target)
	if err != nil {
		return nil, err
	}
	return &client{HTTPClient: wire, codec: codec, duplex: s.version() != httpwire.HTTP1}, nil
}

// errBidi is what both ends say about bidirectional streams.
var errBidi = fmt.Errorf("rest: HTTP/1.1 as deployed answers after the request, not during it, so it has no bidirectional streams; h2, h3, tcp and grpc have: %w", stack.ErrUnsupported)

// CheckKind implements stack.KindLimiter.
func (s Stack) CheckKind(_ scenario.Variant, kind stack.Kind) error {
	if kind == stack.Bidi && s.version() == httpwire.HTTP1 {
		return errBidi
	}
	return nil
}

// Settings implements stack.SettingsReporter.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	plan, codec, err := s.read(v)
	if err != nil {
		return nil, err
	}
	all := stack.MessageLimit(int(codec.most))
	return append(all, plan.Settings(t)...), nil
}
