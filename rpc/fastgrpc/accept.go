package fastgrpc

import (
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
)

// Serve accepts connections until the server stops or the listener fails. It closes the
// listener.
//
// After Stop or GracefulStop it returns nil, once they are done: a program may end when
// Serve has returned.
func (s *Server) Serve(lis net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = lis.Close()
		return ErrServerStopped
	}
	s.serving = true
	s.listeners[lis] = struct{}{}
	s.accepting.Add(1)
	s.mu.Unlock()
	err := rpccall.Accept(lis, s.stopping, s.handshake)
	s.mu.Lock()
	delete(s.listeners, lis)
	s.mu.Unlock()
	_ = lis.Close()
	s.accepting.Done()
	if err != nil {
		return fmt.Errorf("fastgrpc: accept on %v: %w", lis.Addr(), err)
	}
	<-s.stopped
	return nil
}

// handshake calls ServeConn on a new goroutine.
func (s *Server) handshake(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return
	}
	s.accepting.Add(1)
	s.handshaking[nc] = struct{}{}
	go func() {
		defer s.accepting.Done()
		// ServeConn has closed the connection, which tells the client.
		_ = s.ServeConn(nc)
		s.mu.Lock()
		delete(s.handshaking, nc)
		s.mu.Unlock()
	}()
}

// ServeConn serves a connection that the caller has accepted. It returns after the
// handshake; the connection is then served in the background.
func (s *Server) ServeConn(nc net.Conn) error {
	s.mu.Lock()
	s.serving = true
	s.mu.Unlock()
	limitSilence(nc, s.opts.keepalive.Time, s.opts.keepalive.Timeout)
	began := time.Since(batchio.Epoch)
	var auth credentials.AuthInfo
	if s.opts.creds != nil {
		_ = nc.SetDeadline(time.Now().Add(s.opts.connectionTimeout))
		secured, info, err := s.opts.creds.ServerHandshake(nc)
		if errors.Is(err, credentials.ErrConnDispatched) {
			return err // somebody else serves it
		}
		if err != nil {
			_ = nc.Close()
			return fmt.Errorf("fastgrpc: handshake with %v: %w", nc.RemoteAddr(), err)
		}
		_ = secured.SetDeadline(time.Time{})
		nc, auth = secured, info
	}
	if !s.add(newServerConn(s, nc, auth, began)) {
		_ = nc.Close()
		return ErrServerStopped
	}
	return nil
}

// Stop closes listeners and connections at once. It cancels open calls; their clients
// get Unavailable. It does not wait for handlers that ignore their context, see
// [WaitForHandlers].
func (s *Server) Stop() {
	for _, c := range s.beginStop() {
		c.Close(errServerStopping)
	}
	s.endStop(s.opts.waitForHandlers)
}

// GracefulStop accepts no new calls and returns when the open ones have ended. A Stop
// meanwhile ends them.
func (s *Server) GracefulStop() {
	for _, c := range s.beginStop() {
		c.drain()
	}
	s.endStop(true)
}

// beginStop closes the listeners and what is in its handshake, and returns the open
// connections. There will be no more.
func (s *Server) beginStop() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	closeOnce(s.stopping)
	for lis := range s.listeners {
		_ = lis.Close()
	}
	for nc := range s.handshaking {
		_ = nc.Close()
	}
	return s.open()
}

func (s *Server) endStop(waitForHandlers bool) {
	s.running.Wait()
	s.accepting.Wait()
	s.workers.Close()
	if waitForHandlers {
		s.workers.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	closeOnce(s.stopped)
}

var errServerStopping = errors.New("fastgrpc: server is stopping")
