// Package rest carries a service over HTTP the way most services on the web are
// written: net/http at both ends, one POST a call, a path that names the
// operation, a body that is the message. Its stacks differ only in the
// version of HTTP, which package httpwire carries.
//
// A call passes through these stages:
//
//  1. The client marshals the request and POSTs it on a connection.
//  2. The server finds the operation by its path and reads the whole body.
//  3. The server runs the registered handler.
//  4. The server answers 200 with a message, or another HTTP status with a
//     google.rpc.Status.
//  5. The client reads the whole answer.
//
// A request or answer that is one message is a plain body with its Content-Length; a
// stream is a body of frames (frame.go). Messages are binary protobuf or JSON
// (codec.go). docs/wire-http.md says what curl must send.
//
// The code is simple on purpose: it reads bodies with io.ReadAll and reuses nothing
// between calls, because the published studies measured such code. Anything that
// makes it cheaper is an option, visible in the variant's name.
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

// Stack is one of the stacks of this package.
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
// which grows to one a client because each carries one call at a time. HTTP/2 and
// HTTP/3 share one.
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

// read parses a variant's options. REST has none.
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

// errBidi is the error of bidirectional streams over HTTP/1.1, at both ends.
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
	all := stack.MessageLimit(int(codec.maxBytes))
	return append(all, plan.Settings(t)...), nil
}
