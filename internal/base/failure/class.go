package failure

import "errors"

// A Class names the cause of a failed call: a word, followed by a colon and a detail if the
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

	// HandshakeTimeout: a handshake was not complete in time. A client's
	// limit is its call's deadline, and 30 s with QUIC; a server's is 10 s. QUIC
	// begins with the handshake, so a peer that never answers has this class;
	// over TCP it is a ConnectTimeout. If a library opens lost connections again
	// in the background (net/http for HTTP/1.1, grpc-go), its calls end with
	// Deadline.
	HandshakeTimeout Class = "handshake-timeout"
	TLSAlert         Class = "tls-alert"      // the alert follows the colon
	Certificate      Class = "certificate"    // the fault follows the colon
	PlaintextPeer    Class = "plaintext-peer" // one end speaks TLS and the other does not

	// WrongProtocol: the peer speaks, or chose, another protocol.
	WrongProtocol Class = "wrong-protocol"

	StreamRefused Class = "stream-refused" // the peer accepts no further call on the connection
	StreamReset   Class = "stream-reset"   // the peer reset this call's stream; its code follows the colon
	GoAway        Class = "goaway"         // the peer announced the end of the connection
	// FlowControl: a sender exceeded its credit. If a sender waits for credit until its
	// call's deadline, the class is Deadline.
	FlowControl Class = "flow-control"

	Deadline    Class = "deadline"  // the call's own, whatever the call waited for
	Cancelled   Class = "cancelled" // by the caller
	WrongAnswer Class = "wrong-answer"
	Application Class = "application" // the handler's own status: nothing on the way explains it
	Unknown     Class = "other"
)

// with returns the class with a kind.
func (c Class) with(kind string) Class { return c + ": " + Class(kind) }

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
