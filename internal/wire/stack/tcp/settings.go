package tcp

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/stack"
)

const name = "tcp"

// The options and their values.
const (
	framingKey = "framing"
	buffersKey = "buffers"

	framingAuto  = "auto"
	framingPlain = "plain"
	framingCalls = "calls"

	buffersFresh        = "fresh"
	buffersPooled       = "pooled"
	buffersPooledClient = "pooled-client"
	buffersPooledServer = "pooled-server"

	gateKey = "gate"
)

// settings are a variant's options after parsing.
type settings struct {
	framing  string
	pooled   struct{ client, server bool }
	gate     int // calls at a time at the server; 0: any number
	security stack.Security
}

// pooledAt returns the ends at which the memory of frames is used again.
func (s settings) pooledAt() (side string, pooled bool) {
	switch {
	case s.pooled.client && s.pooled.server:
		return tuning.Both, true
	case s.pooled.client:
		return tuning.Client, true
	}
	return tuning.Server, s.pooled.server
}

// An unsupportedError names what the plain framing lacks. Its gRPC status is Unimplemented.
type unsupportedError struct{ reason string }

func errPlainHas(what string) error {
	return unsupportedError{reason: stack.ErrUnsupported.Error() + ": the plain framing has " + what + "; tcp:framing=calls has"}
}

func (e unsupportedError) Error() string { return e.reason }

func (e unsupportedError) Unwrap() error { return stack.ErrUnsupported }

func (e unsupportedError) GRPCStatus() *status.Status {
	return status.New(codes.Unimplemented, e.reason)
}

// streamWindow is the number of messages that a connection holds for a stream's slow reader.
const streamWindow = 4
