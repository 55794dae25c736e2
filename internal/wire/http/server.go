package httpwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http/quicsocket"
	"wirelab.dev/internal/wire/sockopt"
)

// These limits bound the cost of a client before a handler runs.
const (
	readHeaderTimeout = 10 * time.Second // also limits a TLS handshake
	maxHeaderBytes    = 64 << 10
)

// maxStreams limits the concurrent requests on one connection of HTTP/2 or HTTP/3.
const maxStreams = 10_000

// NewServer makes a server. It does not listen yet.
func NewServer(plan ServerPlan) (Server, error) {
	if plan.Version == HTTP3 {
		if plan.TLS == nil {
			return nil, errors.New("httpwire: HTTP/3 always uses TLS: add a TLS configuration to the plan")
		}
		return &h3Server{plan: plan, http: newHTTP3Server(plan)}, nil
	}
	return newTCPServer(plan), nil
}

// tcpServer is an http.Server that can wait for its goroutines.
type tcpServer struct {
	plan     ServerPlan
	http     http.Server
	listener net.Listener
	serving  sync.WaitGroup // waits for Serve
	conns    openConns
}

func newTCPServer(plan ServerPlan) *tcpServer {
	s := &tcpServer{plan: plan, conns: openConns{empty: make(chan struct{}, 1)}}
	s.http = http.Server{
		Protocols:         plan.Version.protocols(plan.TLS != nil),
		Handler:           plan.Handler,
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&boundedLog{to: os.Stderr}, "", 0), //nolint:forbidigo // net/http has no other way to say that a handler panicked
		ConnState:         s.conns.connState,
	}
	if plan.Version == HTTP2 {
		s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	}
	switch {
	case plan.Version == HTTP1: // HTTP/2 runs each handler on its own goroutine
		s.http.Handler = s.conns.excludeHandler(plan.Handler)
	case plan.TLS == nil:
		s.http.Protocols.SetHTTP1(true)
		s.http.Handler = refuseHTTP1(plan.Handler)
	}
	if plan.Connected != nil {
		s.http.ConnContext = func(ctx context.Context, accepted net.Conn) context.Context {
			return plan.Connected(ctx, accepted.RemoteAddr(), accepted.LocalAddr())
		}
	}
	return s
}

func (s *tcpServer) Listen(ctx context.Context, address string) (net.Addr, error) {
	listener, err := sockopt.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	switch {
	case s.plan.TLS == nil:
		s.listener = listener
	case s.plan.Handshakes > 0:
		s.listener = conn.LimitHandshakes(listener, s.plan.TLS, s.plan.Handshakes)
	default:
		s.listener = tls.NewListener(listener, s.plan.TLS)
	}
	s.serving.Add(1) // in Serve, this would race with Close
	return listener.Addr(), nil
}

func (s *tcpServer) Serve() error {
	defer s.serving.Done()
	return serveError(s.http.Serve(s.listener))
}

func (s *tcpServer) Shutdown(ctx context.Context) error {
	return shutDown(ctx, &s.http, s)
}

// serveError returns an error of a library's Serve, or nil if Close caused it.
func serveError(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// shutDown waits for running requests, and then closes the server.
func shutDown(ctx context.Context, library interface{ Shutdown(context.Context) error }, server Server) error {
	if err := library.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down: requests were still running: %w", err), server.Close())
	}
	return server.Close()
}

func (s *tcpServer) Close() error {
	err := s.http.Close()
	if s.listener != nil {
		_ = s.listener.Close() // if Serve was called, it has closed the listener already
		s.serving.Wait()
		_ = s.http.Close() // the second call closes a connection that Serve accepted meanwhile
	}
	s.conns.waitUntilNone()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// openConns counts the connections that run no handler, so that Close can wait for their
// goroutines. net/http's Close does not wait. The count changes with every request.
type openConns struct {
	count   atomic.Int64
	waiting atomic.Bool
	empty   chan struct{} // wakes wait when the count falls to zero
}

func (c *openConns) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.count.Add(1)
	case http.StateClosed:
		c.remove()
	}
}

// excludeHandler wraps a handler. While the handler runs, its connection is not counted.
func (c *openConns) excludeHandler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		c.remove()
		defer c.count.Add(1)
		handler.ServeHTTP(w, request)
	})
}

func (c *openConns) remove() {
	if c.count.Add(-1) == 0 && c.waiting.Load() {
		select {
		case c.empty <- struct{}{}:
		default:
		}
	}
}

// waitUntilNone waits until the count is zero. First close the listener and the connections.
func (c *openConns) waitUntilNone() {
	c.waiting.Store(true)
	for c.count.Load() > 0 {
		<-c.empty
	}
}

// boundedLog writes only the first lines, so that errors cannot fill a disk. Lines about failed
// handshakes have a lower limit, because they are normal and must leave room for lines about
// panics.
type boundedLog struct {
	to         io.Writer
	handshakes atomic.Int64
	others     atomic.Int64
}

// These limits are numbers of lines.
const (
	maxHandshakeLines = 5
	maxOtherLines     = 100
)

func (l *boundedLog) Write(line []byte) (int, error) {
	count, limit := &l.others, int64(maxOtherLines)
	if bytes.Contains(line, []byte("TLS handshake error")) {
		count, limit = &l.handshakes, maxHandshakeLines
	}
	switch n := count.Add(1); {
	case n < limit:
		return l.to.Write(line)
	case n == limit:
		return fmt.Fprintf(l.to, "%shttp: this was line %d about this kind of error; further lines are not shown\n", line, n)
	default:
		return len(line), nil
	}
}

// explainDialError explains why a TLS server closed a cleartext HTTP/2 connection. Such a server
// answers a cleartext HTTP/1.1 request with a TLS alert or an error message.
func (p ClientPlan) explainDialError(ctx context.Context, err error) error {
	if p.Version != HTTP2 || p.TLS != nil || ctx.Err() != nil {
		return err
	}
	opener := conn.Opener{Dialer: p.Dialer, Network: p.Network, Address: p.Address}
	opened, failed := opener.Open(ctx)
	if failed != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	defer context.AfterFunc(ctx, func() { _ = opened.Close() })()
	const maxBytes = 1 << 10
	_, _ = io.WriteString(opened, "OPTIONS * HTTP/1.1\r\nHost: "+p.Host()+"\r\nConnection: close\r\n\r\n")
	answer, failed := io.ReadAll(io.LimitReader(opened, maxBytes)) // a partial answer is enough
	if failure.Of(failed) == failure.PlaintextPeer || bytes.Contains(answer, []byte("to an HTTPS server")) {
		return failure.WithClass(failure.PlaintextPeer, fmt.Errorf("the server speaks TLS, but this client uses cleartext: %w", err))
	}
	return err
}

// refuseHTTP1 answers HTTP/1.1 requests with an error. The server must accept HTTP/1.1: otherwise
// net/http does not explain to TLS clients that the version is wrong.
func refuseHTTP1(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		http.Error(w, "This server speaks only HTTP/2, and the request used HTTP/1.1: try curl --http2-prior-knowledge", http.StatusHTTPVersionNotSupported)
	})
}

// Tests set longer times, so that they pass on a busy machine.
var (
	// serverHandshakeTimeout is the idle timeout of QUIC handshakes, equal to the limit over TCP.
	serverHandshakeTimeout = readHeaderTimeout
	// maxHandshakeTime limits how long one handshake delays waiting connections. Without this
	// limit, they would wait for a lost client until its handshake timeout.
	maxHandshakeTime = 5 * time.Second
)

func h3ServerConfig() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams:   maxStreams,
		HandshakeIdleTimeout: serverHandshakeTimeout,
		Allow0RTT:            true,
	}
}

type h3Server struct {
	plan    ServerPlan
	http    *http3.Server
	socket  *quicsocket.Socket
	quic    *quic.Transport
	serving sync.WaitGroup // waits for Serve

	mu       sync.Mutex
	listener *quicsocket.Listener
	closed   bool
}

func newHTTP3Server(plan ServerPlan) *http3.Server {
	s := &http3.Server{
		Handler:        plan.Handler,
		MaxHeaderBytes: maxHeaderBytes,
		Logger:         slog.New(slog.DiscardHandler),
	}
	if plan.Connected != nil {
		s.ConnContext = func(ctx context.Context, conn *quic.Conn) context.Context {
			return plan.Connected(ctx, conn.RemoteAddr(), conn.LocalAddr())
		}
	}
	return s
}

func (p ServerPlan) admission() quicsocket.Admission {
	return quicsocket.Admission{Handshakes: p.Handshakes, MaxTime: maxHandshakeTime}
}

func (s *h3Server) Listen(ctx context.Context, address string) (net.Addr, error) {
	var config net.ListenConfig
	conn, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("httpwire: HTTP/3: %w", err)
	}
	s.socket = quicsocket.New(conn.(*net.UDPConn), func() {})
	listener, transport, err := s.socket.Listen(s.plan.admission(), http3.ConfigureTLSConfig(s.plan.TLS.Clone()), h3ServerConfig())
	if err != nil {
		return nil, fmt.Errorf("httpwire: HTTP/3: %w", err)
	}
	s.quic = transport
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = listener
	s.serving.Add(1) // in Serve, this would race with Close
	return conn.LocalAddr(), nil
}

func (s *h3Server) Serve() error {
	defer s.serving.Done()
	return serveError(s.http.ServeListener(s.listener))
}

// Shutdown implements Server. It sends GOAWAY (RFC 9114, section 5.2). A client closes its
// connection after its last response.
func (s *h3Server) Shutdown(ctx context.Context) error {
	return shutDown(ctx, s.http, s)
}

// Close implements Server. Unlike the TCP server's Close it cancels the handlers' contexts and
// waits for handlers, because http3.Server.Close does.
func (s *h3Server) Close() error {
	err := s.http.Close() // ends the connections, and waits for them
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil || s.closed {
		return err
	}
	s.closed = true
	_ = s.listener.Close() // waits for handshakes in progress
	s.serving.Wait()
	return errors.Join(err, s.quic.Close(), s.socket.Close())
}
