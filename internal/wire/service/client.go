package service

import (
	"context"
	"io"
	"net/http"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/conn"
)

// A Client carries calls.
type Client interface {
	// Call sends a request, waits for its answer, and writes it into answer, whose memory
	// it may use again. An error says that there is no answer; an answer with an unwanted
	// status is no error. Callers may call concurrently, up to the plan's Callers. The
	// request is one of the definition's, or any request if the plan says Varied.
	Call(ctx context.Context, request *Request, answer *Answer) error
	// Close ends the running calls and closes every connection.
	io.Closer
}

// An Answer is the answer to a call.
type Answer struct {
	// Status is the status of HTTP, or the code of gRPC.
	Status int
	// Message is the text of a gRPC status beside its code.
	Message  string
	Bytes    int64 // of the body; of gRPC of all messages, without prefixes
	Messages int   // of gRPC
	// Times holds the latency of each message of a stream. If both ends send many, it counts
	// from the send of the message that it answers; otherwise from the message before it, or
	// from the begin of the call.
	Times []time.Duration

	// Where the plan says Keep:
	Header http.Header // with the trailers of gRPC
	Body   []byte      // of gRPC the last message; valid until the next call

	// Seat holds an engine's state for the caller between its calls. Only the engine
	// uses it.
	Seat any
}

// Seen returns the answer as expectations look at it.
func (a *Answer) Seen(took time.Duration) expect.Answer {
	return expect.Answer{Status: a.Status, SizeBytes: a.Bytes, Latency: took, Header: a.Header, Body: a.Body}
}

// Plan says how a client carries the calls of a definition.
type Plan struct {
	*Definition
	Connections int            // that it opens and keeps
	Lifecycle   conn.Lifecycle // unless it is Kept, each call opens one, and Connections is ignored
	Callers     int            // that call concurrently at most
	Keep        bool           // answers' headers and bodies are looked at
	Varied      bool           // requests are made while calls are sent
	Dialer      *conn.Dialer   // opens and counts connections
}
