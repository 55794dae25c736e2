// Package rest carries a service over HTTP as most web services do: net/http at both ends, one POST
// per call, the operation's name in the path, the message in the body. Its stacks differ only in
// the version of HTTP: see package httpwire.
//
//  1. The client marshals the request and POSTs it on a connection.
//  2. The server finds the operation by its path, reads the whole body and runs the handler.
//  3. The server answers 200 with a message, or another HTTP status with a google.rpc.Status.
//  4. The client reads the whole answer.
//
// A single message is a plain body with its Content-Length. A stream is a body of frames, in binary
// protobuf or JSON. docs/wire-http.md describes what curl must send.
//
// The code is simple on purpose: it reads bodies with io.ReadAll and reuses nothing between calls,
// because the published studies measured such code. Any improvement of its cost must be an option.
// The package must not know what the messages mean or that it is measured.
package rest

import (
	"net/http"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
)

// Stack is the type of this package's stacks.
type Stack struct{ stack.HTTPStack }

// The stacks.
var (
	// REST is the stack that the published studies call REST. It has no options.
	REST = newStack(httpwire.HTTP1, stack.Info{
		Name: "rest", Summary: "REST over HTTP/1.1 on net/http: POST /operation, the body is binary protobuf, a pool of connections",
	})
	H1 = newStack(httpwire.HTTP1, stack.Info{
		Name: "h1", Summary: "REST over HTTP/1.1 on net/http, with optional TLS and JSON; a pool of connections",
		Options: append(options(stack.OptionalTLS), stack.CallerOption("own", generator.HTTP1)),
	})
	H2 = newStack(httpwire.HTTP2, stack.Info{
		Name: "h2", Summary: "REST over HTTP/2 on net/http: h1's requests as streams of one shared connection",
		Options: append(options(stack.OptionalTLS), stack.CallerOption("own", generator.HTTP2)),
	})
	H3 = newStack(httpwire.HTTP3, stack.Info{
		Name: "h3", Summary: "REST over HTTP/3 on quic-go: h1's requests as streams of one shared QUIC connection",
		Options: options(stack.AlwaysTLS),
	})
)

const codecKey = "codec"

func options(e stack.Encryption) []scenario.Option {
	return append([]scenario.Option{
		{Key: codecKey, Values: []string{protobuf.name, json.name}, Default: protobuf.name, Help: "the encoding of messages; a server accepts all of them and answers in the request's encoding"},
	}, stack.TLSOptions(e)...)
}

func newStack(version httpwire.Version, info stack.Info) Stack {
	refuses := map[stack.Kind]error{}
	info.MarksInMetadata = len(info.Options) > 0 // codec=json
	if version == httpwire.HTTP1 {
		refuses[stack.Bidi] = errBidi
	}
	return Stack{stack.NewHTTPStack(stack.HTTPAdapter{
		Info: info,
		Plan: func(o *scenario.Options) stack.HTTPPlan {
			codec := protobuf
			if len(info.Options) > 0 && o.Text(codecKey) == json.name {
				codec = json
			}
			return stack.HTTPPlan{
				Version:  version,
				Handler:  func(methods *stack.Methods) (http.Handler, error) { return newHandler(methods.InOrder()) },
				Client:   func(wire *stack.HTTPClient) stack.Client { return &client{wire, codec, version != httpwire.HTTP1} },
				Settings: stack.MessageLimit(int(codec.maxBytes)),
			}
		},
		Refuses: refuses,
	})}
}
