// Package stack defines the interface between a service and the wire that carries its calls. It
// also holds code that several stacks share.
//
// A service is an ordinary generated gRPC service. A stack's server is a grpc.ServiceRegistrar. Its
// client is the grpc.ClientConnInterface of the generated stubs. So a workload is written once and
// runs over every stack. Two measured cells differ only in their stacks and options.
//
//  1. A Variant (the stack's name and its options) is checked against the stack's Info.
//  2. NewServer and NewClient make the two ends of the variant.
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

// ErrUnsupported means that a wire cannot carry something, or that this program or machine lacks a
// part of a stack. An error that wraps it says what is missing, and which stacks support it.
var ErrUnsupported error = unsupported.Error("not supported")

// MaxMessageBytes is the largest message at both ends of every stack. It is the same for all
// stacks, so that a size limit never explains a difference.
const MaxMessageBytes = 16 << 20

// A Stack is a wire with its client and its server. It may also implement KindLimiter,
// ConnectionChooser, ProtocolChooser and SettingsReporter.
type Stack interface {
	Info() Info
	// NewServer makes a server that does not listen yet.
	NewServer(scenario.Variant) (Server, error)
	// NewClient makes a client. It opens the client's connections within ctx, so that the first
	// call need not open one.
	NewClient(context.Context, scenario.Variant, Target) (Client, error)
}

// Info describes a stack.
type Info struct {
	Name    string            // the word before the colon of a variant
	Summary string            // one line about the protocol and the messages
	Options []scenario.Option // the options that a variant may set
	// Connection is the stack's usual connection mode, as in the published studies.
	Connection scenario.Connection
	// Protocol names the protocol, as in "HTTP/2". It is for old records, which lack the
	// connections' protocol. A new stack leaves Protocol empty.
	Protocol string
	// QUIC says that the wire uses QUIC, and so supports every conn.Lifecycle. Over TCP, a wire can
	// resume sessions only with TLS.
	QUIC bool
	// MarksInMetadata says that a variant's messages may keep no fields without schema, as in JSON. A
	// trial that follows calls then marks their metadata instead.
	MarksInMetadata bool
}

// ReadOptions parses the options that variant v sets.
func ReadOptions(s Stack, v scenario.Variant) *scenario.Options {
	return scenario.ReadOptions("variant", v, s.Info().Options)
}

// Server serves registered services. Its methods must be called in this order: RegisterService,
// Listen, Serve. Any goroutine may then call Shutdown or Close.
type Server interface {
	grpc.ServiceRegistrar
	// Listen binds HOST:PORT. It also returns the errors of registrations.
	Listen(ctx context.Context, address string) (net.Addr, error)
	// Serve answers calls until Shutdown or Close, and then returns nil.
	Serve() error
	// Shutdown refuses new calls, and waits for running calls until ctx ends. Then it closes.
	Shutdown(ctx context.Context) error
	// Close ends all calls and connections at once. It does not wait for running handlers.
	io.Closer
}

// A Target describes the server that a client dials, and how the client connects.
type Target struct {
	Address string
	// Connections limits the number of shared connections. 0 means one.
	Connections int
	// Operations is the number of the server's operations. 0 means unknown. Some wires send no
	// operation name if there is only one operation.
	Operations int
	// Lifecycle says whether calls share connections. Unless it is conn.Kept, every call
	// opens and closes its own connection, and Connections is ignored.
	Lifecycle conn.Lifecycle
	// Trust says which servers a TLS client accepts.
	Trust secure.Trust
	// Dialer opens and counts the client's connections. If it is nil, the client makes one.
	Dialer *conn.Dialer
}

// DialerOrNew returns the target's dialer, or a new one.
func (t Target) DialerOrNew() *conn.Dialer {
	return cmp.Or(t.Dialer, &conn.Dialer{})
}

// Client makes calls. Any number of goroutines may use it.
type Client interface {
	grpc.ClientConnInterface
	io.Closer
}

// TrafficReporter is an optional interface of a Client that counts its own traffic.
type TrafficReporter interface {
	// Traffic returns the traffic of all connections so far, including closed ones.
	Traffic() (traffic conn.Traffic, known bool)
}

// TLSServer is an optional interface of a Server that can serve over TLS.
type TLSServer interface {
	// RootPEM returns the root certificate that clients must trust. Call it after Listen. It
	// returns nil without TLS.
	RootPEM() []byte
}

// ExternalServer is an optional interface of a Server that runs in another process.
type ExternalServer interface {
	// PID returns the process's ID. Call it after Listen.
	PID() int
	// Program returns the program's name and version.
	Program() string
}

// PeerCarried is an optional interface of a Stack whose two ends are only in a peer, a program of
// its own. The peer runs wirelab's own load engine and probes.
type PeerCarried interface {
	// CarriedBy returns the name of the peer.
	CarriedBy() string
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

// String returns the name of the kind, as in reports.
func (k Kind) String() string {
	return [...]string{"unary", "client stream", "server stream", "bidirectional stream"}[k]
}

// KindOf returns the kind of call that a stream description describes.
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

// WorkloadLimiter is an optional interface of a Stack that cannot answer the calls of every workload.
type WorkloadLimiter interface {
	// CheckWorkload returns an error that wraps ErrUnsupported for a workload that the stack lacks.
	CheckWorkload(name string) error
}

// ConnectionChooser is an optional interface of a Stack whose variants have different connection
// modes.
type ConnectionChooser interface {
	// ConnectionFor returns the variant's connection mode. fixed says that an option of the variant
	// sets the mode, so that the user cannot choose another one.
	ConnectionFor(scenario.Variant) (mode scenario.Connection, fixed bool)
}

// ProtocolChooser is an optional interface of a Stack whose variants have different protocols.
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

// ConnectionOf returns the connection mode of a variant of s. asked is the user's choice, or zero.
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

// CheckLifecycle returns an error that wraps ErrUnsupported if the variant's connections do not
// support the lifecycle.
func CheckLifecycle(s Stack, v scenario.Variant, l conn.Lifecycle) error {
	info := s.Info()
	on, _ := v.Get(tlsKey)
	switch {
	case l == conn.Kept || l == conn.Fresh || info.QUIC:
		return nil
	case !info.hasTLS():
		return fmt.Errorf("%s has no TLS session to resume: %w", v, ErrUnsupported)
	case l == conn.Early:
		return fmt.Errorf("%s: 0rtt needs QUIC, but this wire uses TCP; h3 and grpc-h3 have 0rtt: %w", v, ErrUnsupported)
	case on != "on":
		return fmt.Errorf("%s: without TLS there is no session to resume; set tls=on: %w", v, ErrUnsupported)
	default:
		return nil
	}
}

// CheckKind returns an error that wraps ErrUnsupported if the variant lacks this kind of call.
func CheckKind(s Stack, v scenario.Variant, k Kind) error {
	if limiter, ok := s.(KindLimiter); ok {
		return limiter.CheckKind(v, k)
	}
	return nil
}

// SettingsReporter is an optional interface of a Stack that changes its library's defaults.
type SettingsReporter interface {
	// Settings returns the settings of both ends. It reads them from the configuration that the
	// ends use. The target's address may be empty.
	Settings(scenario.Variant, Target) ([]tuning.Setting, error)
}

// SettingsOf lists the settings of both ends that differ from a library's defaults.
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
	if !s.Info().QUIC { // a QUIC client has only one socket
		all = append(all, t.Dialer.Settings(t.Address)...)
	}
	return tuning.Join(tuning.SettingsOf(tuning.Server, all), tuning.SettingsOf(tuning.Client, all)), o.Err()
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
		all = append(all, tuning.Setting{Side: tuning.Client, Name: "tls.Config.ClientSessionCache", Value: "one session, from before the first call", Default: "none", Why: "the connection mode resumes sessions"})
	}
	return append(all, t.Trust.Settings()...)
}

// MessageLimitReason explains the message limit in a list of settings.
const MessageLimitReason = "all stacks have the same message limit"

// MessageLimit returns the setting for a stack whose library has no message limit.
func MessageLimit(bytes int) []tuning.Setting {
	return []tuning.Setting{{Side: tuning.Both, Name: "message limit", Value: strconv.Itoa(bytes), Default: "no limit", Why: MessageLimitReason}}
}

// OptionReason explains a setting that an option of the variant changes.
func OptionReason(key string) string { return "the variant's option " + key }

// PlaceholderConfig returns an empty TLS configuration if TLS is used, otherwise nil. Package
// httpwire needs nothing more to list its settings.
func (s Security) PlaceholderConfig() *tls.Config {
	if !s.On {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13}
}
