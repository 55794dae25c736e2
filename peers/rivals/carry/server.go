// Package carry holds what the stacks of this program share: the life of a server, the connections
// of a client, and the way from a library's handler to a generated gRPC service.
//
//	library ── Server.Unary, Server.Stream ──> generated service
//	generated stub ── Client ──> Session of a library
//
// It must not know the libraries.
package carry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
)

// A Library is the server of a library.
type Library interface {
	// Serve answers calls until Stop. It may then return any error.
	Serve(net.Listener) error
	// Stop makes Serve return. It need not close connections, or wait for calls.
	Stop()
}

// A Server is a stack.Server that uses a Library.
type Server struct {
	stack.Methods
	name     string
	security stack.Security
	start    func(*Server) (Library, error)

	library  Library // set by Listen
	listener stack.Listener
	accepted *Accepted // nil if the library keeps the connections

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	active   atomic.Int64 // running calls
	stopping atomic.Bool
	idle     chan struct{} // gets a value when the last call ends while the server stops
}

// A Plan describes a Server.
type Plan struct {
	Name     string
	Security stack.Security
	// OwnSockets says that the library reads the listener's socket itself, so that it needs the
	// listener of package net.
	OwnSockets bool
	// Start makes the library's server, with the registered methods.
	Start func(*Server) (Library, error)
}

// NewServer makes a Server.
func NewServer(p Plan) *Server {
	s := &Server{name: p.Name, security: p.Security, start: p.Start, idle: make(chan struct{}, 1)}
	if !p.OwnSockets {
		s.accepted = &Accepted{open: map[net.Conn]struct{}{}}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

var _ stack.TLSServer = (*Server)(nil)

// manyHandshakes bounds the TLS handshakes in progress if the variant does not.
const manyHandshakes = 64

// Listen implements stack.Server.
func (s *Server) Listen(ctx context.Context, address string) (net.Addr, error) {
	err := s.Err()
	if err == nil {
		s.library, err = s.start(s)
	}
	if err == nil {
		s.listener, err = s.security.Listen(ctx, address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", s.name, err)
	}
	if s.listener.TLS != nil && s.security.Handshakes == 0 {
		s.listener.Listener = conn.LimitHandshakes(s.listener.Listener, s.listener.TLS, manyHandshakes)
	}
	if s.accepted != nil {
		s.accepted.Listener, s.accepted.ended = s.listener.Listener, s.ctx.Done()
		s.listener.Listener = s.accepted
	}
	return s.listener.Addr(), nil
}

// RootPEM implements stack.TLSServer.
func (s *Server) RootPEM() []byte { return s.listener.RootPEM }

// Context returns a context that ends with Close.
func (s *Server) Context() context.Context { return s.ctx }

// Serve implements stack.Server.
func (s *Server) Serve() error {
	err := s.library.Serve(s.listener.Listener)
	if s.stopping.Load() {
		return nil
	}
	return fmt.Errorf("%s server: %w", s.name, cmp.Or(err, errors.New("it stopped by itself")))
}

// lastAnswers is the time that a library has to write its last answers.
const lastAnswers = 100 * time.Millisecond

// Shutdown implements stack.Server.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	_ = s.listener.Close() // Close will report nothing more
	var late error
	for late == nil && s.active.Load() > 0 {
		select {
		case <-s.idle:
		case <-ctx.Done():
			late = fmt.Errorf("%s server: calls were still running: %w", s.name, ctx.Err())
		}
	}
	if late == nil {
		select { // no library tells when it has written an answer, which it does after its handler
		case <-time.After(lastAnswers):
		case <-ctx.Done():
		}
	}
	return errors.Join(late, s.Close())
}

// Close implements stack.Server.
func (s *Server) Close() error {
	s.stopping.Store(true)
	if s.listener.Listener != nil {
		_ = s.listener.Close() // the library may have closed it
	}
	s.accepted.closeAll() // before handlers end, so that nobody gets their answers
	s.cancel()
	if s.library != nil {
		s.library.Stop()
	}
	return nil
}

var errStopping = status.Error(codes.Unavailable, "the server is shutting down")

func (s *Server) begin() error {
	s.active.Add(1)
	if s.stopping.Load() {
		s.end()
		return errStopping
	}
	return nil
}

func (s *Server) end() {
	if s.active.Add(-1) == 0 && s.stopping.Load() {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// Unary answers a unary call whose request decode reads.
func (s *Server) Unary(ctx context.Context, m *stack.Method, decode func(any) error) (any, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	return m.Unary.Handler(m.Service, ctx, decode, nil)
}

// Decoded answers a unary call whose request is already a message. The generated handler makes an
// empty request of its own, which is not used.
func (s *Server) Decoded(ctx context.Context, m *stack.Method, request any) (any, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	nothing := func(any) error { return nil }
	return m.Unary.Handler(m.Service, ctx, nothing, func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		return handle(ctx, request)
	})
}

// Stream answers a streaming call.
func (s *Server) Stream(m *stack.Method, stream grpc.ServerStream) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return m.Stream.Handler(m.Service, stream)
}

// Accepted is a listener that can close its connections.
type Accepted struct {
	net.Listener
	// ended is closed when the server is. Until then a closed listener returns no error, because a
	// library may end its calls when it gets one.
	ended <-chan struct{}

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Accept implements net.Listener.
func (a *Accepted) Accept() (net.Conn, error) {
	raw, err := a.Listener.Accept()
	if err != nil {
		if errors.Is(err, net.ErrClosed) {
			<-a.ended
		}
		return nil, err
	}
	one := &acceptedConn{Conn: raw, of: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	a.open[one] = struct{}{}
	return one, nil
}

func (a *Accepted) closeAll() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.closed = true
	open := a.open
	a.open = map[net.Conn]struct{}{}
	a.mu.Unlock()
	for one := range open {
		_ = one.Close()
	}
}

type acceptedConn struct {
	net.Conn
	of *Accepted
}

func (c *acceptedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

var errNoMetadata = status.Error(codes.Unimplemented, "this stack carries no metadata")

// ProtoOf returns a message as a protobuf message.
func ProtoOf(message any) (proto.Message, error) { return stack.ProtoMessage("rivals", message) }
