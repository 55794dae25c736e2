// Package rpccall holds the code that this module's RPC libraries share above their connections: a
// server's life ([Server]), the set of connections ([Conns]), goroutines that run handlers
// ([Workers]), contexts of calls ([Context]), options, interceptors, messages in pooled buffers,
// pings of silent peers ([PingTimer]), and statuses.
//
// This package must not know frames, nor which library calls it. Package wire beside it holds
// the details of gRPC's own wire format.
package rpccall

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"wirelab.dev/rpc/batchio"
)

// A ServerConn is a connection of a server.
type ServerConn interface {
	Conn
	// Close ends the connection and its calls.
	Close(reason error)
	// Drain accepts no more calls, and closes the connection after the last open one.
	Drain()
}

// ServerConfig holds what differs between the libraries. All fields but Creds are required.
type ServerConfig[C ServerConn] struct {
	Library          string                           // its name begins errors and panics
	Creds            credentials.TransportCredentials // nil: connections are cleartext
	HandshakeTimeout time.Duration
	WaitForHandlers  bool  // Stop waits for handlers
	Stopping         error // the reason with which Stop closes connections

	// Prepare sets up a socket before its handshake.
	Prepare func(net.Conn) net.Conn
	// NewConn makes a connection and does not start it. arrived counts from batchio.Epoch.
	NewConn func(nc net.Conn, auth credentials.AuthInfo, arrived time.Duration) C
}

// A Server runs the life of a library's server: it registers services, accepts connections,
// shakes hands, and stops. C is the library's type of a connection, and K its type of a call. Its
// methods may be called concurrently, but services must be registered before Serve.
type Server[C ServerConn, K any] struct {
	Workers Workers[K] // run the handlers
	services

	config ServerConfig[C]
	conns  *Conns[C]

	// The lock of conns guards these three fields.
	serving     bool
	listeners   map[net.Listener]struct{}
	handshaking map[net.Conn]struct{}

	accepting sync.WaitGroup // Serve calls and handshakes
	stopping  chan struct{}  // closed when Stop or GracefulStop begins
	stopped   chan struct{}  // closed when one of them has ended
}

// Init prepares a zero Server. The library owns conns, and removes those that have ended.
func (s *Server[C, K]) Init(config ServerConfig[C], conns *Conns[C]) {
	s.config, s.conns = config, conns
	s.listeners, s.handshaking = make(map[net.Listener]struct{}), make(map[net.Conn]struct{})
	s.stopping, s.stopped = make(chan struct{}), make(chan struct{})
}

// RegisterService registers a service. Like grpc-go's, it panics on a mistake in the program.
func (s *Server[C, K]) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	if s.serving {
		panic(s.config.Library + ": RegisterService after Serve: " + desc.ServiceName)
	}
	s.register(s.config.Library, desc, impl)
}

// GetServiceInfo returns the registered services.
func (s *Server[C, K]) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	return maps.Clone(s.infos)
}

// Serve accepts connections until the server stops or the listener fails. It closes the
// listener. After Stop or GracefulStop it returns nil, once they are done.
func (s *Server[C, K]) Serve(lis net.Listener) error {
	s.conns.Mu.Lock()
	if s.conns.Closed {
		s.conns.Mu.Unlock()
		_ = lis.Close()
		return grpc.ErrServerStopped
	}
	s.serving = true
	s.listeners[lis] = struct{}{}
	s.accepting.Add(1)
	s.conns.Mu.Unlock()
	err := Accept(lis, s.stopping, s.handshake)
	s.conns.Mu.Lock()
	delete(s.listeners, lis)
	s.conns.Mu.Unlock()
	_ = lis.Close()
	s.accepting.Done()
	if err != nil {
		return fmt.Errorf("%s: accept on %v: %w", s.config.Library, lis.Addr(), err)
	}
	<-s.stopped
	return nil
}

// handshake calls ServeConn on a new goroutine, which ends within HandshakeTimeout.
func (s *Server[C, K]) handshake(nc net.Conn) {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	if s.conns.Closed {
		_ = nc.Close()
		return
	}
	s.accepting.Add(1)
	s.handshaking[nc] = struct{}{}
	go func() {
		defer s.accepting.Done()
		_ = s.ServeConn(nc) // on an error, ServeConn closes the connection, which the client notices
		s.conns.Mu.Lock()
		delete(s.handshaking, nc)
		s.conns.Mu.Unlock()
	}()
}

// ServeConn returns after a connection's handshake, and serves it in the background.
func (s *Server[C, K]) ServeConn(nc net.Conn) error {
	s.closeRegistration()
	arrived := time.Since(batchio.Epoch)
	nc = s.config.Prepare(nc)
	var auth credentials.AuthInfo
	if s.config.Creds != nil {
		_ = nc.SetDeadline(time.Now().Add(s.config.HandshakeTimeout))
		secured, info, err := s.config.Creds.ServerHandshake(nc)
		if errors.Is(err, credentials.ErrConnDispatched) {
			return err // the credentials gave the connection to another owner
		}
		if err != nil {
			_ = nc.Close()
			return fmt.Errorf("%s: handshake with %v: %w", s.config.Library, nc.RemoteAddr(), err)
		}
		_ = secured.SetDeadline(time.Time{})
		nc, auth = secured, info
	}
	err := s.AddConn(s.config.NewConn(nc, auth, arrived))
	if err != nil {
		_ = nc.Close()
	}
	return err
}

// AddConn serves a connection that needs no handshake.
func (s *Server[C, K]) AddConn(c C) error {
	s.closeRegistration()
	if !s.conns.Add(c) {
		return grpc.ErrServerStopped
	}
	return nil
}

// closeRegistration makes further calls of RegisterService panic.
func (s *Server[C, K]) closeRegistration() {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	s.serving = true
}

// Stop closes listeners and connections at once, and cancels open calls. It waits for
// handlers only if the config says so.
func (s *Server[C, K]) Stop() {
	s.stop(func(c C) { c.Close(s.config.Stopping) }, s.config.WaitForHandlers)
}

// GracefulStop accepts no new calls. It returns when the open ones have ended, or Stop is called.
func (s *Server[C, K]) GracefulStop() {
	s.stop(func(c C) { c.Drain() }, true) // the handlers of a lost connection may still run
}

// stop closes listeners and handshaking connections, ends the open ones, and waits for all.
func (s *Server[C, K]) stop(end func(C), waitForHandlers bool) {
	s.conns.Mu.Lock()
	s.conns.Closed = true // no connection is added from now on
	CloseOnce(s.stopping)
	for lis := range s.listeners {
		_ = lis.Close()
	}
	for nc := range s.handshaking {
		_ = nc.Close()
	}
	open := s.conns.All()
	s.conns.Mu.Unlock()
	for _, c := range open {
		end(c)
	}
	s.conns.Running.Wait()
	s.accepting.Wait()
	s.Workers.Close() // the workers end after their calls
	if waitForHandlers {
		s.Workers.Wait()
	}
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	CloseOnce(s.stopped) // lets Serve return
}

// Accept passes the listener's connections to handle until stopping is closed, and then
// returns nil once the listener is closed too. It returns an error that is not temporary.
func Accept(lis net.Listener, stopping <-chan struct{}, handle func(net.Conn)) error {
	const (
		firstPause   = 5 * time.Millisecond
		longestPause = time.Second
	)
	pause := firstPause
	for {
		nc, err := lis.Accept()
		if err == nil {
			pause = firstPause
			handle(nc)
			continue
		}
		select {
		case <-stopping:
			return nil
		default:
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return err
		}
		// An example is too many open files: wait until some are closed.
		select {
		case <-time.After(pause):
		case <-stopping:
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}
