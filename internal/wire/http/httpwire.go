// Package httpwire sends and serves HTTP requests over HTTP/1.1, HTTP/2 and
// HTTP/3. Connections are kept and shared, or there is one for each request:
// with a full handshake, a resumed TLS session, or QUIC's early data.
//
//  1. A ServerPlan describes a server; NewServer makes it around an http.Handler.
//  2. A ClientPlan describes a client; NewClient opens its connections through
//     the plan's Dialer, which counts and times them.
//  3. Client.Do sends requests as http.Client.Do does.
//
// HTTP/1.1 and HTTP/2 are net/http's; HTTP/3 is quic-go's. Stacks on top (REST,
// Connect, gRPC over HTTP/3) use all three versions in the same way, so that two
// measurements differ only in the version.
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

// String returns the version's name.
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

// Protocols returns the version's ALPN names (RFC 7301).
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

// QUICCongestion is the congestion control of quic-go, which offers no other and does not
// tell: NewReno (RFC 9002, section 7). A test looks whether it still is.
const QUICCongestion = "reno"

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
	// HandshakeTLS does the TLS handshake on a connection from DialContext. It
	// closes the connection on an error.
	HandshakeTLS(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error)
	// UsedProtocol reports the protocol of a peer's answer: h1, h2 or h3.
	UsedProtocol(protocol string)
	// FirstByte reports the time to the first byte, including the opening of the
	// connection, of a request with its own connection.
	FirstByte(took time.Duration)
}

// QUICObserver is an optional ability of a Dialer: it counts QUIC connections,
// which HTTP/3 opens without the Dialer.
type QUICObserver interface {
	Opened() (closed func())
	Failed()          // no answer from the server
	HandshakeFailed() // an answer, then a failure
	Handshake(h Handshake)
}

// Handshake describes a completed TLS or QUIC handshake.
type Handshake struct {
	Took         time.Duration
	State        tls.ConnectionState
	Early        bool // the server accepted early data
	EarlyRefused bool // the server refused early data
}

// ClientPlan describes a client.
type ClientPlan struct {
	Version     Version
	Address     string      // HOST:PORT
	TLS         *tls.Config // nil: cleartext, except for HTTP/3; the client owns it
	Connections int         // with Kept: the number of connections
	Lifecycle   Lifecycle
	Dialer      Dialer
}

// ServerPlan describes a server.
type ServerPlan struct {
	Version Version
	TLS     *tls.Config // nil: cleartext; the server owns it
	Handler http.Handler
	// Handshakes limits the handshakes in progress. 0: no limit.
	Handshakes int
	// Admit makes a TLS listener that enforces the limit. HTTP/3 does not use
	// it: it enforces the limit itself.
	Admit func(listener net.Listener, config *tls.Config, bound int) net.Listener
	// Connected, if set, returns the context for the requests of a connection.
	Connected func(ctx context.Context, remote, local net.Addr) context.Context
}

// Server answers requests. Call Listen, then Serve, then Shutdown or Close from
// any goroutine.
type Server interface {
	// Listen binds HOST:PORT and returns the address it got.
	Listen(ctx context.Context, address string) (net.Addr, error)
	// Serve answers requests until Shutdown or Close, and then returns nil.
	Serve() error
	// Shutdown accepts no more requests, waits for the running ones until ctx
	// ends, and closes.
	Shutdown(ctx context.Context) error
	// Close closes all connections. It waits for the server's goroutines, except
	// handlers.
	io.Closer
}

// carrier is the part of a Client that differs between versions and lifecycles.
type carrier interface {
	http.RoundTripper
	// Close ends the requests that are running, and every connection.
	io.Closer
}
