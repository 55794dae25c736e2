// Package stack is the seam between a service and the wire that carries it.
//
// A service is an ordinary generated gRPC service. A stack gives it a wire: its
// server takes the service as a grpc.ServiceRegistrar, its client serves the
// generated stubs as a grpc.ClientConnInterface. A workload is therefore
// written once and runs over every stack, and every difference between two
// measured cells is a difference of stacks, visible in the variant's name.
//
// Data passes through like this: a Variant (the stack's name and its options)
// is checked against the options of the stack's Info; NewServer and NewClient turn it into
// the two ends; the worker process registers the services, listens, and serves,
// or dials, and calls.
//
// This package and its adapters must not know who sends when (package load),
// what the messages mean (package workload), or that anything is measured.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"google.golang.org/grpc"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/secure"
)

// ErrUnsupported marks what a wire cannot carry. An error that wraps it says
// what the wire lacks, and which variant or stack has it.
var ErrUnsupported = errors.New("the wire cannot carry it")

// MaxMessageBytes is the largest message that any stack takes by default, on
// both ends. It is one figure for all, so that a size limit is never a
// difference between two stacks.
const MaxMessageBytes = 16 << 20

// Stack is a wire with its client and its server. What only some stacks have to
// say is in the optional abilities KindLimiter, ConnectionChooser,
// ProtocolChooser and SettingsReporter, which are found by assertion.
type Stack interface {
	// Info says what is known before either end is made.
	Info() Info
	// NewServer makes a server that has not begun to listen.
	NewServer(scenario.Variant) (Server, error)
	// NewClient makes a client. It opens its connections before it returns,
	// so that a trial's first call finds them open; ctx bounds that.
	NewClient(context.Context, scenario.Variant, Target) (Client, error)
}

// Info describes a stack.
type Info struct {
	Name    string            // the word before the colon of a variant
	Summary string            // one line: what goes over the wire
	Options []scenario.Option // what a variant may set
	// Connection is the connection mode of the stack as it is commonly
	// written, and as the published studies ran it.
	Connection scenario.Connection
	// Protocol is what is under the calls, as in "HTTP/2", for records older than
	// what connections negotiated. See ProtocolChooser. A new stack has none.
	Protocol string
	// QUIC says that the wire is on QUIC, which has a connection in every
	// Lifecycle. A wire on TCP can resume where it has TLS.
	QUIC bool
}

// ReadOptions reads what v sets of the options of s.
func ReadOptions(s Stack, v scenario.Variant) *scenario.Options {
	return scenario.ReadOptions("variant", v, s.Info().Options)
}

// Server carries registered services. Its methods are called in the order
// RegisterService, Listen, Serve, and then Shutdown or Close from any
// goroutine.
type Server interface {
	grpc.ServiceRegistrar
	// Listen binds HOST:PORT and returns the address it got. An error in
	// what was registered is reported here.
	Listen(ctx context.Context, address string) (net.Addr, error)
	// Serve answers calls until Shutdown or Close, and then returns nil.
	Serve() error
	// Shutdown stops taking calls, and waits for the running ones until ctx
	// ends; then it closes.
	Shutdown(ctx context.Context) error
	// Close ends everything at once. It waits for the server's goroutines,
	// handlers excepted.
	io.Closer
}

// Target is what a client dials.
type Target struct {
	Address string
	// Connections is how many connections the client may hold at most: its
	// calls share them. 0 means one.
	Connections int
	// Operations is how many operations the server at Address serves. A
	// stack whose wire need not name the operation where there is only one
	// looks here. 0 means not known.
	Operations int
	// Lifecycle says what becomes of connections. Where it is not Kept, every
	// call opens one of its own and closes it when it ends, and Connections
	// is without meaning.
	Lifecycle Lifecycle
	// Trust is what a client over TLS believes of the server.
	Trust secure.Trust
	// Dialer opens and counts the client's connections. Clients may share
	// one. Nil: the client makes its own.
	Dialer *Dialer
}

// Lifecycle says whether connections outlive calls, and how a new one begins.
type Lifecycle int

// The lifecycles.
const (
	Kept    Lifecycle = iota // opened once, used by call after call
	Fresh                    // one a call, with a full handshake where there is one
	Resumed                  // one a call, resuming a TLS session that the client got before its first call
	Early                    // the same, with the request as QUIC's early data (RFC 9001, section 4.6)
)

// LifecycleOf is what a connection mode asks of a client.
func LifecycleOf(mode scenario.ConnectionMode) Lifecycle {
	switch mode {
	case scenario.New:
		return Fresh
	case scenario.Resumed:
		return Resumed
	case scenario.Early:
		return Early
	default:
		return Kept
	}
}

// Client makes calls, from any number of goroutines.
type Client interface {
	grpc.ClientConnInterface
	io.Closer
}

// TLSServer is an optional ability of a Server: it can serve over TLS.
type TLSServer interface {
	// RootPEM is what its clients must trust; nil where the variant is
	// without TLS. It is known once the server listens.
	RootPEM() []byte
}

// ExternalServer is an optional ability of a Server: another process does its
// work.
type ExternalServer interface {
	// PID is that process's number, once the server listens.
	PID() int
	// Program names it, with its version.
	Program() string
}

// Kind is one of the four kinds of call.
type Kind int

// The kinds of call, in the order of grpc.StreamDesc's flags.
const (
	Unary Kind = iota
	ClientStream
	ServerStream
	Bidi
)

// String names the kind as the report does.
func (k Kind) String() string {
	switch k {
	case Unary:
		return "unary"
	case ClientStream:
		return "client stream"
	case ServerStream:
		return "server stream"
	case Bidi:
		return "bidirectional stream"
	default:
		return "unknown kind"
	}
}

// KindOf tells the kind of a stream from its description.
func KindOf(desc *grpc.StreamDesc) Kind {
	switch {
	case desc.ClientStreams && desc.ServerStreams:
		return Bidi
	case desc.ClientStreams:
		return ClientStream
	default:
		return ServerStream
	}
}

// KindLimiter is an optional ability of a Stack that cannot carry every kind of
// call.
type KindLimiter interface {
	// CheckKind returns an error that wraps ErrUnsupported where calls of this
	// kind cannot be carried, and nil where they can.
	CheckKind(scenario.Variant, Kind) error
}

// ConnectionChooser is an optional ability of a Stack whose variants do not all
// run in the connection mode of its Info.
type ConnectionChooser interface {
	// ConnectionFor is the variant's mode. It is fixed where an option of the
	// variant says so: it then holds, whatever mode is asked for beside it.
	ConnectionFor(scenario.Variant) (mode scenario.Connection, fixed bool)
}

// ProtocolChooser is an optional ability of a Stack whose variants do not all
// speak the protocol of its Info.
type ProtocolChooser interface {
	ProtocolFor(scenario.Variant) string
}

// ProtocolFor is what a variant of s speaks.
func ProtocolFor(s Stack, v scenario.Variant) string {
	if chooser, ok := s.(ProtocolChooser); ok {
		return chooser.ProtocolFor(v)
	}
	return s.Info().Protocol
}

// ConnectionOf is the mode that a variant of s runs in where asked, which may
// be the zero value, is what a person asked for.
func ConnectionOf(s Stack, v scenario.Variant, asked scenario.Connection) scenario.Connection {
	mode, fixed := s.Info().Connection, false
	if chooser, ok := s.(ConnectionChooser); ok {
		mode, fixed = chooser.ConnectionFor(v)
	}
	if !fixed && asked != (scenario.Connection{}) {
		return asked
	}
	return mode
}

// CheckLifecycle returns an error that wraps ErrUnsupported where connections of
// the variant cannot live like this, and nil where they can.
func CheckLifecycle(s Stack, v scenario.Variant, l Lifecycle) error {
	info := s.Info()
	hasTLS := slices.ContainsFunc(info.Options, func(o scenario.Option) bool { return o.Key == tlsKey })
	on, _ := v.Get(tlsKey)
	switch {
	case l == Kept || l == Fresh || info.QUIC:
		return nil
	case !hasTLS:
		return fmt.Errorf("%s has no TLS session to resume: %w", v, ErrUnsupported)
	case l == Early:
		return fmt.Errorf("%s: 0rtt is QUIC's, and this wire is on TCP; h3 and grpc-h3 have it: %w", v, ErrUnsupported)
	case on != "on":
		return fmt.Errorf("%s: without TLS there is no session to resume; set tls=on: %w", v, ErrUnsupported)
	default:
		return nil
	}
}

// CheckKind asks s whether it can carry calls of this kind.
func CheckKind(s Stack, v scenario.Variant, k Kind) error {
	if limiter, ok := s.(KindLimiter); ok {
		return limiter.CheckKind(v, k)
	}
	return nil
}
