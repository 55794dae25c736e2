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
)

// Bounds on what a stranger may cost the server before a handler runs.
const (
	readHeaderTimeout = 10 * time.Second // a TLS handshake's as well
	maxHeaderBytes    = 64 << 10
)

// maxStreams is what a client may have in flight on one HTTP/2 connection.
const maxStreams = 10_000

// NewServer makes a server that has not begun to listen.
func NewServer(plan ServerPlan) (Server, error) {
	if plan.Version == HTTP3 {
		return newH3Server(plan)
	}
	if plan.Handshakes > 0 && plan.Admit == nil {
		return nil, errors.New("a bound of handshakes over TCP without a listener that keeps to it")
	}
	return newTCPServer(plan), nil
}

// tcpServer is an http.Server whose goroutines can be waited for.
type tcpServer struct {
	plan     ServerPlan
	http     http.Server
	listener net.Listener
	serving  sync.WaitGroup // Serve
	resident residents
}

func newTCPServer(plan ServerPlan) *tcpServer {
	s := &tcpServer{plan: plan, resident: residents{left: make(chan struct{}, 1)}}
	s.http = http.Server{
		Protocols:         plan.Version.only(plan.TLS != nil),
		Handler:           plan.Handler,
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&boundedLog{to: os.Stderr}, "", 0), //nolint:forbidigo // net/http has no other way to say that a handler panicked
		ConnState:         s.resident.connState,
	}
	if plan.Version == HTTP2 {
		s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	}
	switch {
	case plan.Version == HTTP1: // with HTTP/2, handlers have goroutines of their own
		s.http.Handler = s.resident.exceptIn(plan.Handler)
	case plan.TLS == nil:
		s.http.Protocols.SetHTTP1(true)
		s.http.Handler = onlyHTTP2(plan.Handler)
	}
	if plan.Connected != nil {
		s.http.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return plan.Connected(ctx, conn.RemoteAddr(), conn.LocalAddr())
		}
	}
	return s
}

// Listen implements Server.
func (s *tcpServer) Listen(ctx context.Context, address string) (net.Addr, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	switch {
	case s.plan.TLS == nil:
		s.listener = listener
	case s.plan.Handshakes > 0:
		s.listener = s.plan.Admit(listener, s.plan.TLS, s.plan.Handshakes)
	default:
		s.listener = tls.NewListener(listener, s.plan.TLS)
	}
	s.serving.Add(1) // here and not in Serve, where it would race with Close
	return listener.Addr(), nil
}

// Serve implements Server.
func (s *tcpServer) Serve() error {
	defer s.serving.Done()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Shutdown implements Server.
func (s *tcpServer) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down: %w", err), s.Close())
	}
	return s.Close()
}

// Close implements Server.
func (s *tcpServer) Close() error {
	err := s.http.Close()
	if s.listener != nil {
		_ = s.listener.Close() // closed before, unless Serve was never called
		s.serving.Wait()
		_ = s.http.Close() // once more: Serve may have let a last connection in
	}
	s.resident.wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// residents counts the goroutines of the server's connections that are not in
// a handler, so that Close can wait for them; net/http's own Close does not.
// The count is atomic since it changes with every request.
type residents struct {
	count   atomic.Int64
	waiting atomic.Bool
	left    chan struct{} // wakes wait when the count falls to zero
}

func (r *residents) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		r.count.Add(1)
	case http.StateClosed:
		r.leave()
	}
}

// exceptIn does not count those who are in the handler.
func (r *residents) exceptIn(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.leave()
		defer r.count.Add(1)
		handler.ServeHTTP(w, request)
	})
}

func (r *residents) leave() {
	if r.count.Add(-1) == 0 && r.waiting.Load() {
		select {
		case r.left <- struct{}{}:
		default:
		}
	}
}

// wait returns when none are left. Only Close calls it, when the listener and
// the connections are closed.
func (r *residents) wait() {
	r.waiting.Store(true)
	for r.count.Load() > 0 {
		<-r.left
	}
}
