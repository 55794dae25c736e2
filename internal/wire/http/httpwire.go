// Package httpwire sends and serves HTTP requests over HTTP/1.1, HTTP/2 and
// HTTP/3. Requests share kept connections, or each request opens its own:
// with a full handshake, a resumed TLS session, or QUIC's early data.
//
//  1. A ServerPlan describes a server; NewServer makes it around an http.Handler.
//  2. A ClientPlan describes a client; NewClient opens its connections through
//     the plan's Dialer, which counts and times them.
//  3. Client.Do sends requests as http.Client.Do does.
//
// HTTP/1.1 and HTTP/2 are net/http's; HTTP/3 is quic-go's. The stacks REST, Connect and gRPC over
// HTTP/3 use all versions in the same way, so that two measurements differ only in the version.
//
// This package must not know what the requests mean, nor that anything is measured.
package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"

	"wirelab.dev/internal/wire/conn"
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
	return map[Version]string{HTTP1: "HTTP/1.1", HTTP2: "HTTP/2", HTTP3: "HTTP/3"}[v]
}

// Protocols returns the version's ALPN names (RFC 7301).
func (v Version) Protocols() []string {
	return []string{map[Version]string{HTTP1: "http/1.1", HTTP2: "h2", HTTP3: "h3"}[v]}
}

// ClientPlan describes a client.
type ClientPlan struct {
	Version     Version
	Network     string      // tcp or unix; empty means tcp
	Address     string      // HOST:PORT, or the socket's path
	TLS         *tls.Config // nil means cleartext, except for HTTP/3; owned by the client
	Connections int         // number of connections, if Lifecycle is Kept
	Spare       int         // of a silent client of HTTP/1.1: connections that are opened only when a request needs one
	Lifecycle   conn.Lifecycle
	Dialer      *conn.Dialer
	// Silent says that the client sends no request of its own. Otherwise NewClient sends a request
	// on each new TCP connection, to check that the server speaks the version.
	Silent bool
}

// ServerPlan describes a server.
type ServerPlan struct {
	Version Version
	TLS     *tls.Config // nil means cleartext; owned by the server
	Handler http.Handler
	// Handshakes limits the concurrent handshakes. 0 means no limit.
	Handshakes int
	// Connected, if set, returns the context for the requests of a connection.
	Connected func(ctx context.Context, remote, local net.Addr) context.Context
}

// Server answers requests. Call Listen, Serve, then Shutdown or Close from any goroutine.
type Server interface {
	// Listen binds HOST:PORT and returns the bound address.
	Listen(ctx context.Context, address string) (net.Addr, error)
	// Serve answers requests until Shutdown or Close, and then returns nil.
	Serve() error
	// Shutdown refuses new requests, and waits for running requests until ctx ends. Then it closes.
	Shutdown(ctx context.Context) error
	// Close closes all connections. It waits for all goroutines, except those that run handlers.
	io.Closer
}

var errClosed = errors.New("the HTTP client is closed")

// failRequest closes the body of an unsent request, as http.RoundTripper requires, and returns err.
func failRequest(request *http.Request, err error) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return nil, err
}
