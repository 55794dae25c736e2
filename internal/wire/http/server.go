package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/conn"
)

// Limits on what any client may cost the server before a handler runs.
const (
	readHeaderTimeout = 10 * time.Second // also for a TLS handshake
	maxHeaderBytes    = 64 << 10
)

// maxStreams is the limit of requests in flight on one HTTP/2 connection.
const maxStreams = 10_000

// NewServer makes a server. It does not listen yet.
func NewServer(plan ServerPlan) (Server, error) {
	if plan.Version == HTTP3 {
		return newH3Server(plan)
	}
	return newTCPServer(plan), nil
}

// tcpServer is an http.Server whose goroutines can be waited for.
type tcpServer struct {
	plan     ServerPlan
	http     http.Server
	listener net.Listener
	serving  sync.WaitGroup // Serve
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
	case plan.Version == HTTP1: // HTTP/2 runs handlers in other goroutines
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

// Listen implements Server.
func (s *tcpServer) Listen(ctx context.Context, address string) (net.Addr, error) {
	listener, err := congestion.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	switch {
	case s.plan.TLS == nil:
		s.listener = listener
	case s.plan.Handshakes > 0:
		s.listener = conn.Admit(listener, s.plan.TLS, s.plan.Handshakes)
	default:
		s.listener = tls.NewListener(listener, s.plan.TLS)
	}
	s.serving.Add(1) // here and not in Serve, where it would race with Close
	return listener.Addr(), nil
}

// Serve implements Server.
func (s *tcpServer) Serve() error {
	defer s.serving.Done()
	return served(s.http.Serve(s.listener))
}

// Shutdown implements Server.
func (s *tcpServer) Shutdown(ctx context.Context) error {
	return shutDown(ctx, &s.http, s)
}

// served returns the error of a library's Serve, if Close did not cause it.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// shutDown lets the running requests end, and then closes the server.
func shutDown(ctx context.Context, library interface{ Shutdown(context.Context) error }, server Server) error {
	if err := library.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down: requests were still running: %w", err), server.Close())
	}
	return server.Close()
}

// Close implements Server.
func (s *tcpServer) Close() error {
	err := s.http.Close()
	if s.listener != nil {
		_ = s.listener.Close() // closed before, unless Serve was never called
		s.serving.Wait()
		_ = s.http.Close() // again: Serve may have accepted a last connection
	}
	s.conns.wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// openConns counts the connections whose goroutine is not in a handler, so that
// Close can wait for those goroutines; net/http's Close does not. The count is
// atomic because it changes with every request.
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

// excludeHandler wraps a handler so that its connection is not counted while the
// handler runs.
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

// wait returns when the count is zero. Close calls it after it has closed the
// listener and the connections.
func (c *openConns) wait() {
	c.waiting.Store(true)
	for c.count.Load() > 0 {
		<-c.empty
	}
}
