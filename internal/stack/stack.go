// Package stack is the seam between a service and the wire that carries it.
//
// A service is an ordinary generated gRPC service. A stack gives it a wire: its
// server takes the service as a grpc.ServiceRegistrar, its client serves the
// generated stubs as a grpc.ClientConnInterface. A workload is therefore
// written once and runs over every stack, and every difference between two
// measured cells is a difference of stacks, visible in the variant's name.
//
// Data passes through like this: a Variant (the stack's name and its options)
// is checked against the stack's Options; NewServer and NewClient turn it into
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

// Stack is a wire with its client and its server.
type Stack interface {
	// Name is the word before the colon of a variant.
	Name() string
	// Describe says in one line what goes over the wire.
	Describe() string
	// Options lists the keys that a variant of this stack may set.
	Options() []Option
	// DefaultConnection is the connection mode of the stack as it is
	// commonly written, and as the published studies ran it.
	DefaultConnection() scenario.Connection
	// NewServer makes a server that has not begun to listen.
	NewServer(scenario.Variant) (Server, error)
	// NewClient makes a client. It opens its connections before it returns,
	// so that a trial's first call finds them open; ctx bounds that.
	NewClient(context.Context, scenario.Variant, Target) (Client, error)
}

// Option is one key of a variant.
type Option struct {
	Key     string
	Values  []string // the values it takes; empty where any value of the form that Help tells is taken
	Default string
	Help    string // one line, for `wirelab list`
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

// Secured is an optional ability of a Server: it serves over TLS.
type Secured interface {
	// RootPEM is what its clients must trust; nil where the variant is
	// without TLS. It is known once the server listens.
	RootPEM() []byte
}

// Hosted is an optional ability of a Server: another process does its work.
type Hosted interface {
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

// Limited is an optional ability of a Stack: it says what a variant of it
// cannot carry. A stack without it carries everything.
type Limited interface {
	// Lacks returns an error that wraps ErrUnsupported where calls of this
	// kind cannot be carried, and nil where they can.
	Lacks(scenario.Variant, Kind) error
}

// Lasting is an optional ability of a Stack that has more lifecycles than Kept
// and Fresh, which all have.
type Lasting interface {
	// LacksLifecycle returns an error that wraps ErrUnsupported where a
	// variant has no such connections, and nil where it has.
	LacksLifecycle(scenario.Variant, Lifecycle) error
}

// Tuned is an optional ability of a Stack some of whose settings are not its
// library's defaults.
type Tuned interface {
	Settings(scenario.Variant) []Setting
}

// Setting is one value that is not a library's default.
type Setting struct {
	Side    string `json:"side"` // server, client or both
	Name    string `json:"name"` // as the library spells it
	Value   string `json:"value"`
	Default string `json:"default"`
	Why     string `json:"why"`
}

// Connecting is an optional ability of a Stack whose variants may say
// themselves how many connections they make: what is in the variant's name
// then holds, whatever mode is asked for beside it.
type Connecting interface {
	Connection(scenario.Variant) (mode scenario.Connection, said bool)
}

// Diverse is an optional ability of a Stack whose variants do not all have its
// default connection.
type Diverse interface {
	DefaultConnectionOf(scenario.Variant) scenario.Connection
}

// ConnectionOf is the mode that a variant of s runs in where asked, which may
// be the zero value, is what a person asked for.
func ConnectionOf(s Stack, v scenario.Variant, asked scenario.Connection) scenario.Connection {
	if c, ok := s.(Connecting); ok {
		if mode, said := c.Connection(v); said {
			return mode
		}
	}
	if asked != (scenario.Connection{}) {
		return asked
	}
	if d, ok := s.(Diverse); ok {
		return d.DefaultConnectionOf(v)
	}
	return s.DefaultConnection()
}

// LacksLifecycle asks s whether its connections can live like this.
func LacksLifecycle(s Stack, v scenario.Variant, l Lifecycle) error {
	if l == Kept || l == Fresh {
		return nil
	}
	if lasting, ok := s.(Lasting); ok {
		return lasting.LacksLifecycle(v, l)
	}
	return fmt.Errorf("%s has no TLS session to resume: %w", v, ErrUnsupported)
}

// Lacks asks s whether it can carry calls of this kind.
func Lacks(s Stack, v scenario.Variant, k Kind) error {
	if l, ok := s.(Limited); ok {
		return l.Lacks(v, k)
	}
	return nil
}
