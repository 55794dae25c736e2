package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/stack"
)

// server accepts connections and reads from them until they end.
type server struct {
	stack.Methods // registered, and never called
	listener      net.Listener
	readers       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

func newServer() *server { return &server{conns: map[net.Conn]struct{}{}} }

func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("fake server: %w", err)
	}
	listener, err := congestion.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("fake server: %w", err)
	}
	s.listener = listener
	return listener.Addr(), nil
}

func (s *server) Serve() error {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fake server: %w", err)
		}
		s.keep(conn)
	}
}

// keep drains the connection until either side ends it.
func (s *server) keep(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return
	}
	s.conns[conn] = struct{}{}
	s.readers.Go(func() {
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	})
}

// Shutdown is Close: no calls run in the server.
func (s *server) Shutdown(context.Context) error { return s.Close() }

func (s *server) Close() error {
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.readers.Wait()
	return nil
}
