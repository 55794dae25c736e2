// Package connectstack holds two stacks on connect-go: `connect`, the Connect protocol over
// HTTP/2, and `grpc-h3`, the gRPC protocol over HTTP/3. They differ in one option of connect-go's
// client and in the version of HTTP (package httpwire).
//
// connect-go is written for generated code that knows every message's type. These stacks carry
// any registered service: a unary message passes through connect-go in an envelope (codec.go), a
// stream's message is given to connect-go's connection.
//
//  1. The client puts deadline and metadata into an HTTP request, and POSTs it to the
//     operation's full name.
//  2. The server finds the operation's handler by the path, and runs the implementation.
//  3. The server turns the implementation's error into one of connect-go's.
//
// The package must not know what the messages mean or that it is measured.
package connectstack

import (
	"strconv"

	"connectrpc.com/connect"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
)

// Stack is the type of this package's two stacks.
type Stack struct{ stack.HTTPStack }

// The stacks.
var (
	Connect = newStack(httpwire.HTTP2, stack.Info{
		Name: "connect", Summary: "the Connect protocol by connect-go: binary protobuf over HTTP/2",
		Options: stack.TLSOptions(stack.OptionalTLS),
	})
	GRPC3 = newStack(httpwire.HTTP3, stack.Info{
		Name: "grpc-h3", Summary: "the gRPC protocol by connect-go, over HTTP/3 by quic-go",
		Options: stack.TLSOptions(stack.AlwaysTLS),
	}, connect.WithGRPC())
)

func newStack(version httpwire.Version, info stack.Info, protocol ...connect.ClientOption) Stack {
	return Stack{stack.NewHTTPStack(stack.HTTPAdapter{Info: info, Plan: func(*scenario.Options) stack.HTTPPlan {
		ends := settings(protocol...)
		return stack.HTTPPlan{
			Version: version,
			Handler: newHandler,
			Client: func(wire *stack.HTTPClient) stack.Client {
				return &client{HTTPClient: wire, options: ends.Client.Options()}
			},
			Settings: append(ends.Server.Settings(), ends.Client.Settings()...),
		}
	}})}
}

// settings lists the settings of both ends that differ from connect-go's defaults.
func settings(protocol ...connect.ClientOption) (ends tuning.Ends[connect.HandlerOption, connect.ClientOption]) {
	const envelope = "connect-go expects generated code for each message, but here one handler carries messages of any type"
	add := func(name string, s tuning.Setting, apply connect.Option) {
		ends.Add(s, tuning.Option[connect.HandlerOption]{Name: name, Apply: apply}, tuning.Option[connect.ClientOption]{Name: name, Apply: apply})
	}
	limit := tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: "none", Why: stack.MessageLimitReason}
	add("connect.WithReadMaxBytes", limit, connect.WithReadMaxBytes(stack.MaxMessageBytes))
	add("connect.WithSendMaxBytes", limit, connect.WithSendMaxBytes(stack.MaxMessageBytes))
	add("connect.WithCodec(proto)", tuning.Setting{Value: "package proto, in an envelope", Default: "package proto", Why: envelope}, connect.WithCodec(binary))
	ends.Server.Add(tuning.Setting{Side: tuning.Server, Name: "connect.WithCodec(json)", Value: "package protojson, in an envelope", Default: "package protojson", Why: envelope}, connect.WithCodec(json))
	ends.Client.Add(tuning.Setting{Side: tuning.Client, Name: "connect.WithAcceptCompression(gzip)", Value: "none", Default: "gzip", Why: "answers are not compressed, as on the other stacks"},
		connect.WithAcceptCompression("gzip", nil, nil))
	for _, option := range protocol {
		ends.Client.Add(tuning.Setting{Side: tuning.Client, Name: "connect.WithGRPC", Value: "set", Default: "the Connect protocol", Why: "this stack is gRPC"}, option)
	}
	return ends
}
