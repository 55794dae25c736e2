// Package tcp carries calls in length-prefixed protobuf over TCP
// connections, with or without TLS. It is the wire with the least on it, against which the others
// are held.
//
// There are two framings, written down in docs/wire-tcp.md. In the plain one a
// call is a length and a message each way and nothing else; it can carry unary
// calls to the one unary operation of a server. The calls framing adds what
// everything else needs: the operation's name, the deadline, metadata, streams.
// A server tells the two apart by the first four bytes of each call, so every
// connection carries both, one call at a time.
//
// Data passes through like this: wire.go and parser.go turn messages into bytes
// and bytes into events, and know no socket; inbox.go feeds a parser from a
// connection; client*.go and server*.go are the two ends. Whether a frame's
// memory is used once or again (option buffers) is decided in one place, the
// shelf of buffers.go.
//
// This package must not know what the messages mean, nor who sends them when.
package tcp

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

// Stack is the stack `tcp`. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack            = Stack{}
	_ stack.KindLimiter      = Stack{}
	_ stack.SettingsReporter = Stack{}
)

const name = "tcp"

// The options and their values.
const (
	framingKey = "framing"
	buffersKey = "buffers"

	framingAuto  = "auto"
	framingPlain = "plain"
	framingCalls = "calls"

	buffersFresh  = "fresh"
	buffersPooled = "pooled"
)

// Info describes the stack. One connection a client is how the kernel study ran
// it.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "4-byte length and protobuf message on a TCP connection, one call at a time on each",
		Options: append([]scenario.Option{
			{
				Key: buffersKey, Values: []string{buffersFresh, buffersPooled}, Default: buffersFresh,
				Help: "memory of a frame: allocated for each one, or kept by the connection and used again",
			},
			{
				Key: framingKey, Values: []string{framingAuto, framingPlain, framingCalls}, Default: framingAuto,
				Help: "what a client puts on the wire: plain where the call allows it, always plain, or always calls (docs/wire-tcp.md)",
			},
		}, stack.TLSOptions(stack.OptionalTLS)...),
		Connection: scenario.Connection{Mode: scenario.PerWorker}, Protocol: "TCP",
	}
}

// NewServer makes a server that understands both framings, whatever the
// variant asks of its clients.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	return newServer(set), nil
}

// NewClient makes a client and opens all the connections that are kept.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	if err := stack.CheckLifecycle(s, v, target.Lifecycle); err != nil {
		return nil, err
	}
	connector, err := stack.NewConnector(name, set.security, target, "")
	if err != nil {
		return nil, err
	}
	l := line{Connector: connector, settings: set}
	if target.Lifecycle == stack.Kept {
		return l.pool(ctx, target.Connections)
	}
	return connector.NewPerCall(ctx, l.single)
}

// CheckKind says that the plain framing has no streams.
func (Stack) CheckKind(v scenario.Variant, kind stack.Kind) error {
	if framing, _ := v.Get(framingKey); framing == framingPlain && kind != stack.Unary {
		return plainLacks("no " + kind.String())
	}
	return nil
}

// settings is a variant's options, read.
type settings struct {
	framing  string
	pooled   bool
	security stack.Security
}

func (s Stack) settings(v scenario.Variant) (settings, error) {
	o := stack.ReadOptions(s, v)
	return settings{
		framing: o.Text(framingKey), pooled: o.Text(buffersKey) == buffersPooled, security: stack.SecurityOf(o),
	}, o.Err()
}

// lack is a refusal that a caller of gRPC understands as Unimplemented, and one
// of wirelab as stack.ErrUnsupported.
type lack struct{ reason string }

func plainLacks(what string) error {
	return lack{reason: stack.ErrUnsupported.Error() + ": the plain framing has " + what + "; tcp:framing=calls has"}
}

func (l lack) Error() string              { return l.reason }
func (l lack) Unwrap() error              { return stack.ErrUnsupported }
func (l lack) GRPCStatus() *status.Status { return status.New(codes.Unimplemented, l.reason) }
