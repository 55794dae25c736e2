// Package stack defines the interface between a service and the wire that carries its calls, and
// holds what several stacks share.
//
// A service is an ordinary generated gRPC service. A stack's server is a grpc.ServiceRegistrar;
// its client is the grpc.ClientConnInterface of the generated stubs. A workload is therefore
// written once and runs over every stack. Two measured cells differ only by what their variants'
// names say.
//
//  1. A Variant (the stack's name and its options) is checked against the stack's Info.
//  2. NewServer and NewClient turn the variant into the two ends.
//  3. The server's process registers the services, listens and serves.
//  4. The client's process dials and makes calls.
//
// This package and its adapters must not know when calls are sent (package load), what the
// messages mean (package workload), or that anything is measured.
package stack

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/base/unsupported"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
)

// ErrUnsupported marks a thing that a wire cannot carry, or that this program or machine lacks for
// a stack. An error that wraps it says what is missing, and which stacks have it.
var ErrUnsupported error = unsupported.Error("not supported")

// MaxMessageBytes is the largest message that any stack takes, at both ends. It is one figure
// for all, so that a size limit is never a difference between two stacks.
const MaxMessageBytes = 16 << 20

// A Stack is a wire with its client and its server. Its optional interfaces, found by assertion, are
// KindLimiter, ConnectionChooser, ProtocolChooser and SettingsReporter.
type Stack interface {
	// Info describes the stack.
	Info() Info
	// NewServer makes a server that does not listen yet.
	NewServer(scenario.Variant) (Server, error)
	// NewClient makes a client. It opens its connections first, bounded by ctx, so that a trial's
	// first call finds them open.
	NewClient(context.Context, scenario.Variant, Target) (Client, error)
}

// Info describes a stack.
type Info struct {
	Name    string            // the word before the colon of a variant
	Summary string            // one line: what goes over the wire
	Options []scenario.Option // the options that a variant may set
	// Connection is the stack's usual connection mode, as in the published studies.
	Connection scenario.Connection
	// Protocol names the protocol, as in "HTTP/2", for old records, made before connections
	// reported their protocol. A new stack leaves it empty.
	Protocol string
	// QUIC: the wire supports every conn.Lifecycle. A wire on TCP resumes only with TLS.
	QUIC bool
}

// ReadOptions parses the options of s that v sets.
func ReadOptions(s Stack, v scenario.Variant) *scenario.Options {
	return scenario.ReadOptions("variant", v, s.Info().Options)
}

// Server carries registered services. Its methods are called in the order RegisterService,
// Listen, Serve, and then Shutdown or Close from any goroutine.
type Server interface {
	grpc.ServiceRegistrar
	// Listen binds HOST:PORT. It also reports errors in the registrations.
	Listen(ctx context.Context, address string) (net.Addr, error)
	// Serve answers calls until Shutdown or Close, and then returns nil.
	Serve() error
	// Shutdown takes no more calls, waits for the running ones until ctx ends, and closes.
	Shutdown(ctx context.Context) error
	// Close ends everything at once. It does not wait for goroutines that run handlers.
	io.Closer
}

// A Target describes the server that a client dials, and how.
type Target struct {
	Address string
	// Connections limits the connections that the client's calls share; 0 means one.
	Connections int
	// Operations is the number of the server's operations; 0: unknown. Some wires need not name
	// the only one.
	Operations int
	// Lifecycle says whether calls share connections. Unless it is conn.Kept, every call
	// opens and closes its own connection, and Connections is ignored.
	Lifecycle conn.Lifecycle
	// Trust says which servers a client over TLS accepts.
	Trust secure.Trust
	// Dialer opens and counts the client's connections. Nil: the client makes its own.
	Dialer *conn.Dialer
}

// DialerOrNew returns the target's dialer, or a new one.
func (t Target) DialerOrNew() *conn.Dialer {
	return cmp.Or(t.Dialer, &conn.Dialer{})
}

// Client makes calls, from any number of goroutines.
type Client interface {
	grpc.ClientConnInterface
	io.Closer
}

// TrafficReporter is an optional interface of a Client that counts its traffic itself.
type TrafficReporter interface {
	// Traffic returns the traffic of all connections so far, also of closed ones.
	Traffic() (traffic conn.Traffic, known bool)
}

// TLSServer is an optional interface of a Server that can serve over TLS.
type TLSServer interface {
	// RootPEM returns the root certificate that clients must trust, once the server
	// listens; nil without TLS.
	RootPEM() []byte
}

// ExternalServer is an optional interface of a Server that runs in another process.
type ExternalServer interface {
	// PID returns that process's ID, once the server listens.
	PID() int
	// Program returns the program's name and version.
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

// String returns the kind's name in reports.
func (k Kind) String() string {
	return [...]string{"unary", "client stream", "server stream", "bidirectional stream"}[k]
}

// KindOf returns the kind of a stream.
func KindOf(desc *grpc.StreamDesc) Kind {
	switch {
	case !desc.ClientStreams:
		return ServerStream
	case desc.ServerStreams:
		return Bidi
	}
	return ClientStream
}

// KindLimiter is an optional interface of a Stack that cannot carry every kind of call.
type KindLimiter interface {
	// CheckKind returns an error that wraps ErrUnsupported for calls that the variant cannot carry.
	CheckKind(scenario.Variant, Kind) error
}

// ConnectionChooser is an optional interface of a Stack whose variants differ in their mode.
type ConnectionChooser interface {
	// ConnectionFor returns the variant's mode. fixed says that an option of the variant
	// sets it, so that no other can be chosen.
	ConnectionFor(scenario.Variant) (mode scenario.Connection, fixed bool)
}

// ProtocolChooser is an optional interface of a Stack whose variants differ in their protocol.
type ProtocolChooser interface {
	ProtocolFor(scenario.Variant) string
}

// ProtocolFor returns the protocol of a variant of s.
func ProtocolFor(s Stack, v scenario.Variant) string {
	if chooser, ok := s.(ProtocolChooser); ok {
		return chooser.ProtocolFor(v)
	}
	return s.Info().Protocol
}

// ConnectionOf returns the mode that a variant of s runs in. asked is the user's mode, or zero.
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

// CheckLifecycle returns ErrUnsupported if the variant's connections cannot have this lifecycle.
func CheckLifecycle(s Stack, v scenario.Variant, l conn.Lifecycle) error {
	info := s.Info()
	on, _ := v.Get(tlsKey)
	switch {
	case l == conn.Kept || l == conn.Fresh || info.QUIC:
		return nil
	case !info.hasTLS():
		return fmt.Errorf("%s has no TLS session to resume: %w", v, ErrUnsupported)
	case l == conn.Early:
		return fmt.Errorf("%s: 0rtt is QUIC's, and this wire is on TCP; h3 and grpc-h3 have it: %w", v, ErrUnsupported)
	case on != "on":
		return fmt.Errorf("%s: without TLS there is no session to resume; set tls=on: %w", v, ErrUnsupported)
	default:
		return nil
	}
}

// CheckKind returns an error that wraps ErrUnsupported if the variant cannot carry such calls.
func CheckKind(s Stack, v scenario.Variant, k Kind) error {
	if limiter, ok := s.(KindLimiter); ok {
		return limiter.CheckKind(v, k)
	}
	return nil
}

// SettingsReporter is an optional interface of a Stack that changes its library's defaults.
type SettingsReporter interface {
	// Settings returns the settings of both ends, taken from the configuration that they are made
	// from. The target's address may be empty.
	Settings(scenario.Variant, Target) ([]tuning.Setting, error)
}

// SettingsOf lists the settings of both ends that are not a library's default.
func SettingsOf(s Stack, v scenario.Variant, t Target) ([]tuning.Setting, error) {
	var all []tuning.Setting
	if reporter, ok := s.(SettingsReporter); ok {
		var err error
		if all, err = reporter.Settings(v, t); err != nil {
			return nil, err
		}
	}
	o := ReadOptions(s, v)
	if s.Info().hasTLS() {
		all = append(all, SecurityOf(o).settings(t)...)
	}
	if !s.Info().QUIC { // a QUIC client has one socket, and needs no sources
		all = append(all, t.Dialer.Settings(t.Address)...)
	}
	return tuning.Join(tuning.At(tuning.Server, all), tuning.At(tuning.Client, all)), o.Err()
}

func (s Security) settings(t Target) []tuning.Setting {
	if !s.On {
		return nil
	}
	all := s.Choice.Settings()
	if s.Handshakes > 0 {
		all = append(all, tuning.Setting{Side: tuning.Server, Name: "handshakes in progress", Value: strconv.Itoa(s.Handshakes), Default: "no bound", Why: "the variant's option handshakes"})
	}
	if t.Lifecycle == conn.Resumed || t.Lifecycle == conn.Early {
		all = append(all, tuning.Setting{Side: tuning.Client, Name: "tls.Config.ClientSessionCache", Value: "one session, from before the first call", Default: "none", Why: "the connection mode resumes"})
	}
	return append(all, t.Trust.Settings()...)
}

// WhyLimit is the reason of each stack's message limit.
const WhyLimit = "one message limit for all stacks"

// MessageLimit returns the setting of a stack whose library has no message limit.
func MessageLimit(bytes int) []tuning.Setting {
	return []tuning.Setting{{Side: tuning.Both, Name: "message limit", Value: strconv.Itoa(bytes), Default: "no limit", Why: WhyLimit}}
}

// WhyOption is the reason of a setting that an option of the variant changes.
func WhyOption(key string) string { return "the variant's option " + key }

// Configured says whether TLS is used: the list of httpwire's settings needs no more.
func (s Security) Configured() *tls.Config {
	if !s.On {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13}
}
