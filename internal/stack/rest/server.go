package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"wirelab.dev/internal/stack"
)

// Bounds on what a stranger may cost the server before a handler runs.
const (
	readHeaderTimeout = 10 * time.Second
	maxHeaderBytes    = 64 << 10
	maxLogLines       = 100
)

// server is an http.Server whose goroutines can be waited for.
type server struct {
	methods  stack.Methods
	http     http.Server
	listener net.Listener
	serving  sync.WaitGroup // Serve
	resident residents
}

func newServer() *server {
	s := &server{resident: residents{left: make(chan struct{}, 1)}}
	s.http = http.Server{
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&boundedLog{to: os.Stderr, lines: maxLogLines}, "rest: ", 0), //nolint:forbidigo // net/http has no other way to say that a handler panicked
		ConnState:         s.resident.connState,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return peer.NewContext(ctx, &peer.Peer{Addr: conn.RemoteAddr(), LocalAddr: conn.LocalAddr()})
		},
	}
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.methods.RegisterService(desc, service)
}

// Listen implements stack.Server.
func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, fmt.Errorf("rest: listen: %w", err)
	}
	handler, err := newHandler(s.methods.All())
	if err != nil {
		return nil, fmt.Errorf("rest: listen: %w", err)
	}
	s.http.Handler = s.resident.exceptIn(handler)
	var config net.ListenConfig
	s.listener, err = config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("rest: listen: %w", err)
	}
	s.serving.Add(1) // here and not in Serve, where it would race with Close
	return s.listener.Addr(), nil
}

// Serve implements stack.Server.
func (s *server) Serve() error {
	defer s.serving.Done()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("rest: serve: %w", err)
	}
	return nil
}

// Shutdown implements stack.Server.
func (s *server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("rest: shut down: %w", err), s.Close())
	}
	return s.Close()
}

// Close implements stack.Server.
func (s *server) Close() error {
	err := s.http.Close()
	if s.listener != nil {
		_ = s.listener.Close() // closed before, unless Serve was never called
		s.serving.Wait()
		_ = s.http.Close() // once more: Serve may have let a last connection in
	}
	s.resident.wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("rest: close: %w", err)
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

// boundedLog passes on the first lines, so that a fault which repeats with
// every call cannot fill a disk.
type boundedLog struct {
	to    io.Writer
	lines int64
	seen  atomic.Int64
}

func (l *boundedLog) Write(line []byte) (int, error) {
	switch n := l.seen.Add(1); {
	case n < l.lines:
		return l.to.Write(line)
	case n == l.lines:
		return fmt.Fprintf(l.to, "%srest: that was line %d of this log; there will be no more\n", line, n)
	default:
		return len(line), nil
	}
}
