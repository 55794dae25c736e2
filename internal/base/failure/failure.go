// Package failure classifies the errors of failed calls by their cause: a limit of the
// machine, the network, the handshake, the protocol, or the application's own answer.
//
// It gets an error as the adapter returned it, and looks at
//
//  1. a class that was added to the error with As;
//  2. the types in its chain: handshake.go, kernel.go, protocol.go;
//  3. its text, if a library has turned the cause into text and the library's source
//     makes that text exact: text.go.
//
// This package must not know any stack, nor count anything.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Class is the cause of a failed call: a word, followed by a colon and a detail if the
// class has kinds: "tls-alert: bad certificate".
type Class string

// The classes.
const (
	PortExhaustion  Class = "port-exhaustion"  // no local port is free
	DescriptorLimit Class = "descriptor-limit" // no file descriptor is free
	Refused         Class = "refused"          // no process listens
	Backlog         Class = "backlog"          // a SYN on loopback was left unanswered, which a full accept queue does
	ConnectTimeout  Class = "connect-timeout"  // a SYN was left unanswered, on a link that may have lost it
	Reset           Class = "reset"            // the peer, or its kernel, reset the connection
	Closed          Class = "closed"           // the peer ended the connection in the middle of a call
	Silent          Class = "silent"           // the peer answered no probe: keep-alive, QUIC's idle timeout

	// HandshakeTimeout is a handshake that was not complete in time. A client's
	// limit is its call's deadline, and 30 s with QUIC; a server's is 10 s. QUIC
	// begins with the handshake, so a peer that never answers is of this class;
	// over TCP it is a ConnectTimeout. If a library opens lost connections again
	// in the background (net/http for HTTP/1.1, grpc-go), its calls end with
	// Deadline.
	HandshakeTimeout Class = "handshake-timeout"
	TLSAlert         Class = "tls-alert"      // which one, behind the colon
	Certificate      Class = "certificate"    // what is wrong with it, behind the colon
	PlaintextPeer    Class = "plaintext-peer" // one end speaks TLS and the other does not

	// WrongProtocol is a peer whose bytes are not those of the protocol.
	WrongProtocol Class = "wrong-protocol"

	StreamRefused Class = "stream-refused" // the peer accepts no further call on the connection
	StreamReset   Class = "stream-reset"   // the peer reset this call's stream; its code is behind the colon
	GoAway        Class = "goaway"         // the peer announced the end of the connection
	// FlowControl is a sender that exceeded its credit. A sender that waits for
	// credit until its call's deadline is a Deadline.
	FlowControl Class = "flow-control"

	Deadline    Class = "deadline"  // the call's own, whatever the call waited for
	Cancelled   Class = "cancelled" // by the caller
	WrongAnswer Class = "wrong-answer"
	Application Class = "application" // the handler's own status: nothing on the way explains it
	Unknown     Class = "other"
)

// with adds a kind to a class.
func (c Class) with(kind string) Class { return c + ": " + Class(kind) }

// Of returns the class of a call's error.
func Of(err error) Class {
	if own, ok := errors.AsType[*marked](err); ok {
		return own.class
	}
	for _, look := range []func(error) Class{ofHandshake, ofText, ofKernel, ofProtocol, ofEnd} {
		if class := look(err); class != "" {
			return class
		}
	}
	if _, is := status.FromError(err); is && err != nil {
		return Application
	}
	return Unknown
}

// ofEnd classifies errors that say only that the call ended.
func ofEnd(err error) Class {
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

// isType reports whether an error of type E is in the chain.
func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// As adds a class to an error, for callers that know more than its type and text say.
func As(class Class, err error) error { return &marked{error: err, class: class} }

type marked struct {
	error
	class Class
}

func (m *marked) Unwrap() error { return m.error }

// InHandshake adds HandshakeTimeout to a timeout of a handshake: only the code that does
// the handshake can tell it from other timeouts.
func InHandshake(err error) error {
	if isTimeout(err) {
		return As(HandshakeTimeout, err)
	}
	return err
}
