package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// server has one goroutine per connection. Close waits for the goroutines that run no handler.
type server struct {
	stack.Methods
	settings settings
	only     *stack.Method // answers plain calls; nil unless the only operation is unary

	gate     chan struct{}   // holds one element per running call; nil means no limit
	ctx      context.Context // parent context of all handlers
	cancel   context.CancelFunc
	draining atomic.Bool
	handlers sync.WaitGroup // handlers that run on a goroutine of their own

	conns    rpccall.Conns[*serverConn] // its lock also guards the following fields
	listener stack.Listener
	served   chan struct{} // closed when Serve returns; nil before Serve begins
}

var _ stack.TLSServer = (*server)(nil)

func newServer(set settings) *server {
	s := &server{settings: set}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if set.gate > 0 {
		s.gate = make(chan struct{}, set.gate)
	}
	return s
}

func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	s.only = onlyUnaryMethod(s.InOrder())
	listener, err := s.settings.security.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	s.listener = listener
	return listener.Addr(), nil
}

func (s *server) RootPEM() []byte { return s.listener.RootPEM }

func onlyUnaryMethod(methods []*stack.Method) (only *stack.Method) {
	for _, m := range methods {
		switch {
		case m.Kind != stack.Unary:
		case only != nil:
			return nil
		default:
			only = m
		}
	}
	return only
}

func (s *server) Serve() error {
	s.conns.Mu.Lock()
	listener := s.listener
	if listener.Listener == nil || s.conns.Closed {
		s.conns.Mu.Unlock()
		if listener.Listener == nil {
			return errors.New("serve: the server does not listen: call Listen first")
		}
		return nil
	}
	s.served = make(chan struct{})
	s.conns.Mu.Unlock()
	defer close(s.served)

	var closer sync.WaitGroup
	defer closer.Wait()
	done := make(chan struct{})
	defer close(done)
	closer.Go(func() { s.closeStalledUntil(done) })
	if err := rpccall.Accept(listener, s.ctx.Done(), s.startConn); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("accept: %w", err)
	}
	return nil
}

func (s *server) startConn(raw net.Conn) {
	if s.listener.TLS != nil && s.settings.security.Handshakes == 0 {
		raw = tls.Server(raw, s.listener.TLS) // a listener with a limit has done the handshake
	}
	if !s.conns.Add(newServerConn(s, raw)) {
		_ = raw.Close()
	}
}

func (s *server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	conns := s.stopListening()
	drained := make(chan struct{})
	go func() { // the goroutine ends after the last handler
		for _, c := range conns {
			<-c.done
		}
		s.handlers.Wait()
		close(drained)
	}()
	for _, c := range conns {
		if c.phase.CompareAndSwap(betweenCalls, closed) {
			_ = c.raw.Close()
		}
	}
	var cut error
	select {
	case <-drained:
	case <-ctx.Done():
		cut = fmt.Errorf("shutdown: calls were still running: %w", context.Cause(ctx))
	}
	return errors.Join(cut, s.Close())
}

// Close closes all connections, and then ends the handlers' contexts.
func (s *server) Close() error {
	conns := s.stopListening()
	s.conns.Mu.Lock()
	served := s.served
	s.conns.Mu.Unlock()
	inHandler := map[*serverConn]bool{}
	for _, c := range conns {
		inHandler[c] = c.phase.Swap(closed) == runsHandler
		_ = c.raw.Close()
	}
	s.cancel()
	for _, c := range conns {
		if !inHandler[c] {
			<-c.done
		}
	}
	if served != nil {
		<-served
	}
	return nil
}

func (s *server) stopListening() []*serverConn {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	if s.listener.Listener != nil {
		_ = s.listener.Close()
	}
	s.conns.Closed = true
	return s.conns.All()
}

// closeStalledUntil calls closeStalled once per stallInterval until done is closed.
func (s *server) closeStalledUntil(done <-chan struct{}) {
	ticker := time.NewTicker(stallInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			s.closeStalled()
		}
	}
}

// closeStalled closes each connection on which a read or write has lasted since the previous call.
func (s *server) closeStalled() {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	for c := range s.conns.Open {
		reading, writing := c.readWait.hasStalled(), c.writeWait.hasStalled()
		if reading || writing {
			_ = c.raw.Close()
		}
	}
}
