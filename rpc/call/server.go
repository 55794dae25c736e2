// Package rpccall holds the code that this module's RPC libraries share above their connections:
// the common part of servers ([Server]), the set of connections ([Conns]), goroutines that run
// handlers ([Workers]), contexts of calls ([Context]), options, interceptors, messages in pooled
// buffers, time limits of connections ([Clock]), and statuses.
//
// This package must know neither frames nor the library that calls it. The package wire in its
// folder holds the details of gRPC's own wire format.
package rpccall

import (
	"errors"
	"fmt"
	"io"
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
	// Drain accepts no more calls, and closes the connection after the last open call.
	Drain()
}

// ServerConfig holds the values that differ between the libraries. Only Creds may be left out.
type ServerConfig[C ServerConn] struct {
	Library          string                           // the library's name, for errors and panics
	Creds            credentials.TransportCredentials // nil means that connections are cleartext
	HandshakeTimeout time.Duration
	WaitForHandlers  bool  // Stop waits for handlers
	Stopping         error // the error with which Stop closes connections
	// Preface holds the bytes that every client sends first. The server reads them before it makes the
	// connection, so that a silent client costs only a goroutine.
	Preface string
	// Refusal holds the bytes that a client gets whose first bytes are others.
	Refusal string

	// Prepare sets up a socket before its handshake.
	Prepare func(net.Conn) net.Conn
	// NewConn makes a connection, but does not start it. arrived is the time since batchio.Epoch.
	NewConn func(nc net.Conn, auth credentials.AuthInfo, arrived time.Duration) C
}

// A Server is the common part of the libraries' servers: it registers services, accepts
// connections, runs handshakes, and stops. C is the library's type of connections, and K is the
// library's type of calls. The methods may be called concurrently, but services must be registered
// before Serve is called.
type Server[C ServerConn, K any] struct {
	Workers Workers[K] // run the handlers
	config  ServerConfig[C]
	conns   *Conns[C]
	methods map[string]*Method
	infos   map[string]grpc.ServiceInfo

	// The lock of conns guards these fields.
	serving bool
	closers map[io.Closer]struct{} // listeners, and connections in their handshake

	accepting sync.WaitGroup // counts Serve calls and handshakes
	stopping  chan struct{}  // closed when Stop or GracefulStop begins
	stopped   chan struct{}  // closed when Stop or GracefulStop has ended
}

// Init prepares a zero Server. The library must remove connections that have ended from conns.
func (s *Server[C, K]) Init(config ServerConfig[C], conns *Conns[C]) {
	s.config, s.conns = config, conns
	s.methods, s.infos = make(map[string]*Method), make(map[string]grpc.ServiceInfo)
	s.closers = make(map[io.Closer]struct{})
	s.stopping, s.stopped = make(chan struct{}), make(chan struct{})
}

// Serve accepts connections until the server stops or the listener fails. It closes the listener.
// If Stop or GracefulStop is called, Serve returns nil after that method has finished.
func (s *Server[C, K]) Serve(lis net.Listener) error {
	if err := s.begin(lis); err != nil {
		return err
	}
	err := Accept(lis, s.stopping, s.handshake)
	_ = lis.Close()
	s.end(lis)
	if err != nil {
		return fmt.Errorf("%s: accept on %v: %w", s.config.Library, lis.Addr(), err)
	}
	<-s.stopped
	return nil
}

// begin makes Stop close c, a listener or a connection in its handshake, and wait until end is
// called.
func (s *Server[C, K]) begin(c io.Closer) error {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	s.serving = true
	if s.conns.Closed {
		_ = c.Close()
		return grpc.ErrServerStopped
	}
	s.closers[c] = struct{}{}
	s.accepting.Add(1)
	return nil
}

func (s *Server[C, K]) end(c io.Closer) {
	s.conns.Mu.Lock()
	delete(s.closers, c)
	s.conns.Mu.Unlock()
	s.accepting.Done()
}

// handshake secures and serves a connection on a new goroutine.
func (s *Server[C, K]) handshake(nc net.Conn) {
	_ = s.whileOpen(nc, func() {
		arrived := time.Since(batchio.Epoch)
		if secured, auth, err := s.secure(nc); err == nil {
			s.greet(secured, auth, arrived)
		}
	})
}

// whileOpen calls f on a new goroutine. Stop closes nc meanwhile.
func (s *Server[C, K]) whileOpen(nc net.Conn, f func()) error {
	if err := s.begin(nc); err != nil {
		return err
	}
	go func() {
		defer s.end(nc)
		f()
	}()
	return nil
}

// ServeConn returns after the handshake, and serves the connection in the background.
func (s *Server[C, K]) ServeConn(nc net.Conn) error {
	arrived := time.Since(batchio.Epoch)
	secured, auth, err := s.secure(nc)
	if err != nil {
		return err
	}
	return s.whileOpen(nc, func() { s.greet(secured, auth, arrived) })
}

// ServeSecured serves a connection that needs no handshake in the background.
func (s *Server[C, K]) ServeSecured(nc net.Conn, auth credentials.AuthInfo) error {
	return s.whileOpen(nc, func() { s.greet(nc, auth, time.Since(batchio.Epoch)) })
}

// secure runs the handshake. On an error, it closes nc.
func (s *Server[C, K]) secure(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	prepared := s.config.Prepare(nc)
	_ = prepared.SetDeadline(time.Now().Add(s.config.HandshakeTimeout))
	if s.config.Creds == nil {
		return prepared, nil, nil
	}
	secured, auth, err := s.config.Creds.ServerHandshake(ForHandshake(prepared, s.config.Creds))
	if errors.Is(err, credentials.ErrConnDispatched) {
		return nil, nil, err // the credentials gave the connection to another owner
	}
	if err != nil {
		_ = nc.Close()
		return nil, nil, fmt.Errorf("%s: handshake with %v: %w", s.config.Library, nc.RemoteAddr(), err)
	}
	return secured, auth, nil
}

// ForHandshake returns the connection to pass to credentials. TLS reads and writes short records, for
// which batchio's system calls cost less.
func ForHandshake(nc net.Conn, creds credentials.TransportCredentials) net.Conn {
	if creds.Info().SecurityProtocol == "tls" {
		return batchio.Direct(nc)
	}
	return nc
}

// greet reads the preface and serves the connection. If that fails, greet closes the connection.
func (s *Server[C, K]) greet(nc net.Conn, auth credentials.AuthInfo, arrived time.Duration) {
	switch err := readPreface(nc, s.config.Preface); {
	case err == nil:
		_ = nc.SetDeadline(time.Time{})
		if s.conns.Add(s.config.NewConn(nc, auth, arrived)) {
			return
		}
	case errors.Is(err, errWrongPreface):
		refuse(nc, s.config.Refusal)
	}
	_ = nc.Close()
}

var errWrongPreface = errors.New("the client's first bytes are not the protocol's")

// refuse sends a refusal. Then it reads what the client still sends, for at most refusalTimeout,
// because closing a socket with unread bytes would reset the connection before the client reads.
func refuse(nc net.Conn, refusal string) {
	_, _ = io.WriteString(nc, refusal)
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = nc.SetDeadline(time.Now().Add(refusalTimeout))
	var rest [512]byte
	for range maxRefusedReads {
		if _, err := batchio.Read(nc, rest[:]); err != nil {
			return
		}
	}
}

const (
	refusalTimeout  = time.Second
	maxRefusedReads = 64
)

// readPreface reads the bytes want, and fails as soon as another byte comes.
func readPreface(nc net.Conn, want string) error {
	var buf [64]byte
	for len(want) > 0 {
		n, err := batchio.Read(nc, buf[:min(len(buf), len(want))])
		if string(buf[:n]) != want[:n] {
			return errWrongPreface
		}
		if want = want[n:]; err != nil && want != "" {
			return err
		}
	}
	return nil
}

// Stop closes listeners and connections at once, and cancels open calls. It waits for handlers only
// if ServerConfig.WaitForHandlers is set.
func (s *Server[C, K]) Stop() {
	s.stop(func(c C) { c.Close(s.config.Stopping) }, s.config.WaitForHandlers)
}

// GracefulStop accepts no new calls. It returns when all calls have ended, or Stop is called.
func (s *Server[C, K]) GracefulStop() {
	s.stop(func(c C) { c.Drain() }, true) // wait, because handlers of a lost connection may still run
}

// stop closes listeners and unfinished handshakes, and calls end for each open connection. Then it
// waits until all connections have ended.
func (s *Server[C, K]) stop(end func(C), waitForHandlers bool) {
	s.conns.Mu.Lock()
	s.conns.Closed = true // no connection is added from now on
	CloseOnce(s.stopping)
	for c := range s.closers {
		_ = c.Close()
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

// Accept passes the listener's connections to handle. It returns nil when stopping and the listener
// are closed. It also returns if the listener has an error that is not temporary.
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
		// A temporary error is, for example, too many open files. Wait until some are closed.
		select {
		case <-time.After(pause):
		case <-stopping:
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}
