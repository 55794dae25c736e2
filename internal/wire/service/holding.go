package service

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/record"
)

// An Exchange says what one call on a held stream is.
type Exchange string

// The exchanges.
const (
	Answers Exchange = "answer"  // send a message, and wait for its answer
	Receive Exchange = "receive" // wait for the next message of the server
	Send    Exchange = "send"    // send a message, and wait for nothing
)

// Holding says how clients hold streams. Each stream stays open, and a call is one message on it.
type Holding struct {
	Exchange Exchange `json:"exchange"`
	// InFlight is the number of callers that share a stream. Each has one message in flight.
	InFlight int `json:"in_flight"`
	// OpenPerSecond is the rate at which streams are opened before the load. 0 means at once.
	OpenPerSecond float64 `json:"open_per_second,omitempty"`
	// OwnSchedule says that each stream has a schedule of its own, with an equal share of the rate.
	OwnSchedule bool `json:"own_schedule,omitempty"`
	// Binary says that messages of a WebSocket are binary. Otherwise they are text.
	Binary bool `json:"binary,omitempty"`
	// These are expressions over a message. Match finds the answer to a message: both have the same
	// value. Without it, answers come in the order of the messages. SentAt is when a message was
	// sent. Sequence numbers the messages of a stream.
	Match    string `json:"match,omitempty"`
	SentAt   string `json:"sent_at,omitempty"`
	Sequence string `json:"sequence,omitempty"`
}

// ReadsMessages reports whether an expression reads messages.
func (h *Holding) ReadsMessages() bool {
	return h != nil && h.Match+h.SentAt+h.Sequence != ""
}

// SetDefault chooses the exchange if the user has not: by the gRPC method, or by whether there is a
// message to send over a WebSocket.
func (h *Holding) SetDefault(d *Definition) {
	first := d.Requests[0]
	switch {
	case h.Exchange != "":
	case d.Wire.IsGRPC() && first.Stream.Client && first.Stream.Server, d.Wire == WebSocket && len(first.Body) > 0:
		h.Exchange = Answers
	case d.Wire.IsGRPC() && first.Stream.Client:
		h.Exchange = Send
	default:
		h.Exchange = Receive
	}
}

// HoldEvents makes each client hold one stream of events open. A call is then one event.
func (d *Definition) HoldEvents() {
	d.Holding = &Holding{InFlight: 1}
	d.Holding.SetDefault(d)
	d.Timeout = 0 // a quiet stream is not late
}

// CallersOf returns the callers for numbers of streams. Without held streams, both are the same.
func (h *Holding) CallersOf(streams []int) []int {
	if h == nil || h.InFlight <= 1 {
		return streams
	}
	callers := slices.Clone(streams)
	for i := range callers {
		callers[i] *= h.InFlight
	}
	return callers
}

// A Holder is a Client whose callers hold streams.
type Holder interface {
	Client
	// Hold gives a caller its stream, and stores that in answer. The first caller of a stream opens
	// it with the request; other callers need no request.
	Hold(ctx context.Context, caller int, request *Request, answer *Answer) error
	// CallersPerStream returns how many neighbouring callers share a stream.
	CallersPerStream() int
	// Streams returns the counts of all streams so far.
	Streams() *record.Streams
}

// ErrUnfinished is the error of a call that waits for a message of the server when the load ends.
// It is no failed call, since nothing is late.
var ErrUnfinished = errors.New("the load ended before the next message came")

// An EndError says that a stream ended, and why.
type EndError struct {
	Reason string // a few words, the same for all ends of a kind
	Normal bool   // the server ended the stream in the way that its protocol provides
	Class  failure.Class
	Detail string // more about this end; may be empty
}

// Error implements error.
func (e *EndError) Error() string {
	text := "the stream ended: " + e.Reason
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// EventStream is the content type of server-sent events.
const EventStream = "text/event-stream"

// HasEvents reports whether a kept answer is a stream of server-sent events.
func (a *Answer) HasEvents() bool {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return a.Status == http.StatusOK && kind == EventStream
}
