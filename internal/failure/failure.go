// Package failure names what a failed call met: the machine's limits, the
// network, the handshake, the protocol, or the application's own answer.
//
// An error reaches it as the adapter returned it. Where the cause is still in
// the chain (errors.As), it decides; where a library has flattened it into
// text, the text does, and only where the library's own source makes it exact.
//
// The files go from the machine outwards: kernel.go, handshake.go, protocol.go
// (the types that say what happened), text.go (what is left of such types).
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

// Class is what a call met. It is a word, with a detail behind a colon where
// one class has kinds: "tls-alert: bad certificate".
type Class string

// The classes.
const (
	PortExhaustion  Class = "port-exhaustion"  // no local port is free
	DescriptorLimit Class = "descriptor-limit" // no file descriptor is free
	Refused         Class = "refused"          // nobody listens
	Backlog         Class = "backlog"          // a SYN on loopback was left unanswered, which a full accept queue does
	ConnectTimeout  Class = "connect-timeout"  // a SYN was left unanswered, on a link that may have lost it
	Reset           Class = "reset"            // the peer, or its kernel, broke the connection off
	Closed          Class = "closed"           // the peer ended the connection in the middle of a call
	Silent          Class = "silent"           // the peer answered no probe: keep-alive, QUIC's idle timeout

	// HandshakeTimeout is a connection whose handshake was not done when
	// patience ended. On every wire a client's is its call's deadline, and none
	// besides but a QUIC library's of 30 s; a server's is 10 s. QUIC begins with
	// the handshake: a peer that never answers is one of these, where over TCP
	// it is a ConnectTimeout. Where a connection that was lost is opened again
	// behind the calls' backs (net/http for HTTP/1.1, grpc-go), they see a
	// Deadline.
	HandshakeTimeout Class = "handshake-timeout"
	TLSAlert         Class = "tls-alert"      // which one, behind the colon
	Certificate      Class = "certificate"    // what is wrong with it, behind the colon
	PlaintextPeer    Class = "plaintext-peer" // one end speaks TLS and the other does not

	StreamRefused Class = "stream-refused" // the peer takes no further call on the connection
	StreamReset   Class = "stream-reset"   // the peer broke off the one call; its code behind the colon
	GoAway        Class = "goaway"         // the peer is ending the connection, and said so
	// FlowControl is a credit overdrawn. A stall, which is a credit that
	// never comes, looks like a deadline from where the call stands.
	FlowControl Class = "flow-control"

	Deadline    Class = "deadline"  // the call's own, whatever it waited for
	Cancelled   Class = "cancelled" // by the caller
	WrongAnswer Class = "wrong-answer"
	Application Class = "application" // a status that nothing on the way explains: the handler's own
	Unknown     Class = "other"
)

// with adds a kind to a class.
func (c Class) with(kind string) Class { return c + ": " + Class(kind) }

// Of names what the call met.
func Of(err error) Class {
	if own, ok := errors.AsType[classed](err); ok {
		return Class(own.FailureClass())
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

// ofEnd knows the ways in which a call ends that say nothing more.
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

// classed is an error that knows its class. A package that may not import this
// one can declare the method too.
type classed interface {
	error
	FailureClass() string
}

// As marks an error with its class, for who knows what its text does not tell.
func As(class Class, err error) error { return &marked{error: err, class: class} }

type marked struct {
	error
	class Class
}

func (m *marked) FailureClass() string { return string(m.class) }
func (m *marked) Unwrap() error        { return m.error }

// InHandshake is what a handshake ended with: only who performs it can tell its
// timeout from another.
func InHandshake(err error) error {
	if isTimeout(err) {
		return As(HandshakeTimeout, err)
	}
	return err
}
