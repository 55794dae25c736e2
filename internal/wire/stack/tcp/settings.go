package tcp

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/stack"
)

const name = "tcp"

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

type settings struct {
	framing  string
	pooled   string // the ends that reuse frame memory, in the words of package tuning
	gate     int    // limit of running calls at the server; 0 means no limit
	security stack.Security
}

func (s settings) poolsBuffersAt(end string) bool { return s.pooled == end || s.pooled == tuning.Both }

// An unsupportedError says which feature the plain framing lacks. Its gRPC status is Unimplemented.
type unsupportedError struct{ reason string }

func errPlainLacks(what string) error {
	return unsupportedError{reason: stack.ErrUnsupported.Error() + ": the plain framing supports " + what + "; use tcp:framing=calls"}
}

func (e unsupportedError) Error() string { return e.reason }

func (e unsupportedError) Unwrap() error { return stack.ErrUnsupported }

func (e unsupportedError) GRPCStatus() *status.Status {
	return status.New(codes.Unimplemented, e.reason)
}

// streamWindow limits the unread messages of a stream that a connection keeps.
const streamWindow = 4
