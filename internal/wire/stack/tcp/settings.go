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
	pooled   string // the ends that reuse the memory of frames, as tuning names them
	gate     int    // calls at a time at the server; 0: any number
	security stack.Security
}

// pooledAt reports whether an end, the server or the client, reuses the memory of frames.
func (s settings) pooledAt(end string) bool { return s.pooled == end || s.pooled == tuning.Both }

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
