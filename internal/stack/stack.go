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
	"io"
	"net"

	"google.golang.org/grpc"

	"wirelab.dev/internal/scenario"
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
}

// Client makes calls, from any number of goroutines.
type Client interface {
	grpc.ClientConnInterface
	io.Closer
	// Connections counts what the client has really done.
	Connections() ConnectionCounts
}

// ConnectionCounts is what a client achieved, counted where connections are
// made and not from what was asked.
type ConnectionCounts struct {
	Opened int64 `json:"opened"` // since the client was made
	Failed int64 `json:"failed"` // attempts that did not become a connection
	Open   int64 `json:"open"`   // now
}

// Plus adds the counts of another client.
func (c ConnectionCounts) Plus(d ConnectionCounts) ConnectionCounts {
	return ConnectionCounts{Opened: c.Opened + d.Opened, Failed: c.Failed + d.Failed, Open: c.Open + d.Open}
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

// Connecting is an optional ability of a Stack whose variants may say
// themselves how many connections they make: what is in the variant's name
// then holds, whatever mode is asked for beside it.
type Connecting interface {
	Connection(scenario.Variant) (mode scenario.Connection, said bool)
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
	return s.DefaultConnection()
}

// Lacks asks s whether it can carry calls of this kind.
func Lacks(s Stack, v scenario.Variant, k Kind) error {
	if l, ok := s.(Limited); ok {
		return l.Lacks(v, k)
	}
	return nil
}
