// Package httpwire carries HTTP requests over HTTP/1.1, HTTP/2 and HTTP/3, with
// connections that live as they are told to: kept and shared, or one a request,
// begun afresh, by resuming a TLS session, or with QUIC's early data.
//
// A ClientPlan makes a Client, whose Do is that of an http.Client; a ServerPlan
// makes a Server around an http.Handler. Everything that says HTTP on top of it
// (REST, Connect, gRPC over HTTP/3) is made the same way on all three versions,
// so that what differs between two measurements is the version and nothing else.
//
// HTTP/1.1 and HTTP/2 are net/http's; HTTP/3 is quic-go's. Connections are opened
// through the plan's Dialer, which counts and times them.
//
// This package must not know what the requests mean, nor that anything is
// measured.
package httpwire

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"
)

// Version is a version of HTTP.
type Version int

// The versions.
const (
	HTTP1 Version = 1
	HTTP2 Version = 2
	HTTP3 Version = 3
)

// String is the version's name.
func (v Version) String() string {
	switch v {
	case HTTP2:
		return "HTTP/2"
	case HTTP3:
		return "HTTP/3"
	default:
		return "HTTP/1.1"
	}
}

// Protocols are the version's names in the TLS handshake (RFC 7301).
func (v Version) Protocols() []string {
	switch v {
	case HTTP2:
		return []string{"h2"}
	case HTTP3:
		return []string{"h3"}
	default:
		return []string{"http/1.1"}
	}
}

// Lifecycle says whether connections outlive requests, and how a new one begins.
// Its values are those of stack.Lifecycle.
type Lifecycle int

// The lifecycles.
const (
	Kept Lifecycle = iota
	Fresh
	Resumed
	Early
)

// Dialer opens TCP connections, counts them and takes their times.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// ShakeHands makes a connection that DialContext has opened one of TLS.
	// Where it fails the connection is closed.
	ShakeHands(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error)
	// Spoke says which protocol a connection's peer has answered in: h1, h2, h3.
	Spoke(protocol string)
	// FirstByte takes the time of a request on a connection of its own.
	FirstByte(took time.Duration)
}

// QUICObserver is an optional ability of a Dialer: it is told of QUIC's
// connections, which HTTP/3 opens itself.
type QUICObserver interface {
	Opened() (closed func())
	Failed()          // to open: nobody answered
	HandshakeFailed() // somebody did, and then it failed
	Handshake(h Handshake)
}

// Handshake is one of TLS or QUIC that was done.
type Handshake struct {
	Took         time.Duration
	State        tls.ConnectionState
	Early        bool // with early data that the server took
	EarlyRefused bool // with early data that it did not
}

// ClientPlan is what a client is made from.
type ClientPlan struct {
	Version     Version
	Address     string      // HOST:PORT
	TLS         *tls.Config // nil: cleartext, which HTTP/3 has not; the client owns it
	Connections int         // Kept: how many, at most
	Lifecycle   Lifecycle
	Dialer      Dialer
}

// ServerPlan is what a server is made from.
type ServerPlan struct {
	Version Version
	TLS     *tls.Config // nil: cleartext; the server owns it
	Handler http.Handler
	// Handshakes bounds those in progress. 0: no bound.
	Handshakes int
	// Admit makes the listener of TLS connections that keeps to the bound,
	// which HTTP/3 does itself.
	Admit func(listener net.Listener, config *tls.Config, bound int) net.Listener
	// Connected, where it is set, adds to the context of a connection's
	// requests.
	Connected func(ctx context.Context, remote, local net.Addr) context.Context
}

// Server answers requests. Its methods are called in the order Listen, Serve,
// and then Shutdown or Close from any goroutine.
type Server interface {
	// Listen binds HOST:PORT and returns the address it got.
	Listen(ctx context.Context, address string) (net.Addr, error)
	// Serve answers requests until Shutdown or Close, and then returns nil.
	Serve() error
	// Shutdown takes no more requests, and waits for the running ones until
	// ctx ends; then it closes.
	Shutdown(ctx context.Context) error
	// Close ends everything at once. It waits for the server's goroutines,
	// handlers excepted.
	io.Closer
}

// carrier is what a version of HTTP makes of a ClientPlan.
type carrier interface {
	http.RoundTripper
	// Close ends the requests that are running, and every connection.
	io.Closer
}
