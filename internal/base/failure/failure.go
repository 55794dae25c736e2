// Package failure classifies the errors of failed calls by their cause: a limit of the machine,
// the network, the handshake, the protocol, or the application's own answer. It first looks for a
// class from WithClass, then at the types in the error chain (chain.go), and last at texts that
// the library's source fixes (webPhrases, grpcPhrases).
//
// This package must not know any stack, and it counts nothing.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Of returns the class of a call's error.
func Of(err error) Class {
	if own, ok := errors.AsType[*classifiedError](err); ok {
		return own.class
	}
	for _, look := range []func(error) Class{classifyHandshake, classifyText, classifyErrno, classifyProtocol, classifyEnd} {
		if class := look(err); class != "" {
			return class
		}
	}
	if _, is := status.FromError(err); is && err != nil {
		return Application
	}
	return Unknown
}

// IsUnreached reports whether a call failed because no connection could be opened for it.
func IsUnreached(err error) bool {
	switch Of(err) {
	case Refused, ConnectTimeout, Backlog:
		return true
	case Unknown:
		failed, is := errors.AsType[*net.OpError](err)
		return is && failed.Op == "dial"
	}
	return false
}

// classifyEnd classifies errors that say only that the call ended, but not why.
func classifyEnd(err error) Class {
	code := status.Code(err)
	switch {
	case code == codes.Canceled, errors.Is(err, context.Canceled):
		return Cancelled
	case code == codes.DeadlineExceeded, isTimeout(err):
		return Deadline
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return Closed
	}
	return ""
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// MarkHandshakeTimeout adds the class HandshakeTimeout to a timeout error. Only the code that runs
// the handshake can call it, because the error itself does not name the handshake.
func MarkHandshakeTimeout(err error) error {
	if isTimeout(err) {
		return WithClass(HandshakeTimeout, err)
	}
	return err
}

// A Class names the cause of a failed call. Some classes add a colon and a detail, such as
// "tls-alert: bad certificate".
type Class string

// The classes.
const (
	PortExhaustion  Class = "port-exhaustion"  // no local port is free
	DescriptorLimit Class = "descriptor-limit" // no file descriptor is free
	Refused         Class = "refused"          // no process listens
	// a SYN on loopback stayed unanswered: a queue is full
	Backlog        Class = "backlog"
	ConnectTimeout Class = "connect-timeout" // a SYN on another link stayed unanswered
	Reset          Class = "reset"           // the peer or its kernel reset the connection
	Closed         Class = "closed"          // the peer closed the connection during a call
	IdleClosed     Class = "idle-closed"     // the peer closed a kept connection just before a call
	Silent         Class = "silent"          // the peer answered no keep-alive probe, or was idle

	// HandshakeTimeout: a handshake was not complete in time. A client's limit is its call's
	// deadline; with QUIC it is 30 s. A server's limit is 10 s. Libraries that reconnect in the
	// background (net/http for HTTP/1.1, grpc-go) report Deadline instead.
	HandshakeTimeout Class = "handshake-timeout"
	TLSAlert         Class = "tls-alert"      // the alert's name follows the colon
	Certificate      Class = "certificate"    // the certificate's fault follows the colon
	PlaintextPeer    Class = "plaintext-peer" // one end speaks TLS and the other does not

	// WrongProtocol: the peer uses another protocol.
	WrongProtocol Class = "wrong-protocol"

	StreamRefused Class = "stream-refused" // the peer accepts no more calls on the connection
	StreamReset   Class = "stream-reset"   // the peer reset the stream; its code follows the colon
	GoAway        Class = "goaway"         // the peer announced the end of the connection
	// FlowControl: a sender exceeded its flow-control window. A sender that waits for window until
	// its call's deadline gets Deadline instead.
	FlowControl Class = "flow-control"

	Deadline    Class = "deadline"  // the call's own deadline passed
	Cancelled   Class = "cancelled" // the caller cancelled the call
	WrongAnswer Class = "wrong-answer"
	Application Class = "application" // the handler itself returned the error status
	Unknown     Class = "other"
)

func (c Class) withDetail(kind string) Class { return c + ": " + Class(kind) }

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// WithClass adds a class to an error. Use it if the error's type and text do not show the class.
func WithClass(class Class, err error) error { return &classifiedError{error: err, class: class} }

type classifiedError struct {
	error
	class Class
}

func (m *classifiedError) Unwrap() error { return m.error }

// A phrase is a part of an error's text that identifies its class, if the type does not.
type phrase struct {
	text  string
	class Class
}

func classifyText(err error) Class {
	if err == nil {
		return ""
	}
	if class := classOfPhrase(webPhrases, err.Error()); class != "" {
		return class
	}
	st, is := status.FromError(err)
	if !is {
		return ""
	}
	// If a stream was reset, grpc-go translates the stream's code into a gRPC code. If the
	// connection ended, grpc-go returns Unavailable.
	if _, code, broken := strings.Cut(st.Message(), "stream terminated by RST_STREAM with error code: "); broken {
		return classifyStreamCode(code, st.Code())
	}
	if st.Code() == codes.Unavailable {
		return classOfPhrase(grpcPhrases, st.Message())
	}
	return ""
}

func classOfPhrase(phrases []phrase, in string) Class {
	for _, p := range phrases {
		if strings.Contains(in, p.text) {
			return p.class
		}
	}
	return ""
}

// webPhrases lists the phrases in errors of net/http.
var webPhrases = []phrase{
	{"net/http: TLS handshake timeout", HandshakeTimeout},
	{"Client sent an HTTP request to an HTTPS server", PlaintextPeer},
	{`malformed HTTP response "\x15\x03`, PlaintextPeer}, // the peer answered with a TLS record
	{"http: server closed idle connection", Closed},      // also of a connection that was not idle
	{"http2: server sent GOAWAY", GoAway},
	{"http2: Transport received Server's graceful shutdown GOAWAY", StreamRefused}, // of a call that was not processed
	{"; REFUSED_STREAM; received from peer", StreamRefused},                        // net/http cannot send it again
}

// grpcPhrases lists the phrases in errors of grpc-go's internal/transport. GOAWAY comes first,
// because it explains why the connection ended.
var grpcPhrases = []phrase{
	{"received prior goaway: code: ", GoAway},
	{"received goaway and there are no active streams", GoAway},
	{"no active streams left to process while draining", GoAway},
	{"the stream is rejected because server is draining the connection", GoAway},
	{"the connection is draining", GoAway},
	{"keepalive ping failed to receive ACK within timeout", Silent},
	{": " + syscall.ECONNRESET.Error(), Reset},
	{": " + syscall.EPIPE.Error(), Reset},
	{"error reading from server: EOF", Closed},
	{"error reading from server: unexpected EOF", Closed},
	{"error reading server preface: EOF", Closed},
	{"transport is closing", Closed},
}

// classifyStreamCode classifies the code of RST_STREAM (RFC 9113, section 7) by its name. A server
// also resets the stream of a call whose deadline has passed. The class of a call after its
// deadline is Deadline.
func classifyStreamCode(name string, code codes.Code) Class {
	name, _, _ = strings.Cut(name, ";")
	switch {
	case name == "REFUSED_STREAM":
		return StreamRefused
	case name == "FLOW_CONTROL_ERROR":
		return FlowControl
	case code == codes.DeadlineExceeded:
		return Deadline
	default:
		return StreamReset.withDetail(name)
	}
}
