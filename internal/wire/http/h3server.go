package httpwire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"wirelab.dev/internal/wire/http/quicsocket"
)

// Tests set more, so that a busy machine does not break them.
var (
	// serverHandshakeTimeout is the idle timeout of handshakes, as with TCP.
	serverHandshakeTimeout = readHeaderTimeout
	// maxHandshakeTime limits the time for which a new connection keeps others waiting. Lost
	// connections must not hold up a burst of new ones until their timeout.
	maxHandshakeTime = 5 * time.Second
)

func h3ServerConfig() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams:   maxStreams,
		HandshakeIdleTimeout: serverHandshakeTimeout,
		Allow0RTT:            true,
	}
}

// h3Server is an http3.Server with its own UDP socket.
type h3Server struct {
	plan    ServerPlan
	http    *http3.Server
	socket  *quicsocket.Socket
	quic    *quic.Transport
	serving sync.WaitGroup // Serve

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

// admission returns the limits of an HTTP/3 server's new connections.
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
	s.serving.Add(1) // here and not in Serve, where it would race with Close
	return conn.LocalAddr(), nil
}

func (s *h3Server) Serve() error {
	defer s.serving.Done()
	return served(s.http.ServeListener(s.listener))
}

// Shutdown implements Server. It sends GOAWAY (RFC 9114, section 5.2); a client
// then closes its connection after its last response.
func (s *h3Server) Shutdown(ctx context.Context) error {
	return shutDown(ctx, s.http, s)
}

// Close implements Server. Unlike the TCP server's, it also waits for handlers,
// whose contexts it cancels: http3.Server.Close does so.
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
