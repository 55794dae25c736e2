package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"wirelab.dev/internal/base/failure"
)

// HandshakeTimeout bounds a server's TLS handshakes. It is the default of net/http's Transport.
const HandshakeTimeout = 10 * time.Second

// LimitHandshakes returns a listener of TLS connections whose handshakes are done. It runs at most
// bound handshakes at once. Other connections wait in the kernel's accept queue, at no cost.
// Thousands of concurrent handshakes would each take as long as the slowest of them.
func LimitHandshakes(listener net.Listener, config *tls.Config, bound int) net.Listener {
	a := &handshakeListener{Listener: listener, config: config, arrivals: make(chan acceptResult)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	for range bound {
		a.workers.Go(a.acceptLoop)
	}
	return a
}

type handshakeListener struct {
	net.Listener
	config   *tls.Config
	arrivals chan acceptResult

	ctx     context.Context // ends when Close is called
	cancel  context.CancelFunc
	workers sync.WaitGroup // the goroutines that do handshakes
}

type acceptResult struct {
	conn net.Conn
	err  error
}

// acceptLoop accepts connections and does their handshakes until the listener is closed.
func (a *handshakeListener) acceptLoop() {
	for {
		raw, err := a.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		next := acceptResult{err: err}
		if err == nil {
			conn := tls.Server(raw, a.config)
			if ServerHandshake(a.ctx, conn) != nil {
				continue // ServerHandshake has closed the connection
			}
			next.conn = conn
		}
		select {
		case a.arrivals <- next:
		case <-a.ctx.Done():
			if next.conn != nil {
				_ = raw.Close()
			}
			return
		}
	}
}

func (a *handshakeListener) Accept() (net.Conn, error) {
	select {
	case next := <-a.arrivals:
		return next.conn, next.err
	case <-a.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close stops listening and aborts the handshakes in progress.
func (a *handshakeListener) Close() error {
	a.cancel()
	err := a.Listener.Close()
	a.workers.Wait()
	return err
}

// ServerHandshake does the server's side of a TLS handshake within HandshakeTimeout, unless the
// handshake is done already. On failure it closes the connection. A peer that does not speak TLS
// gets an alert.
func ServerHandshake(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil {
		_, _ = header.Conn.Write(notTLSAlert) // ignore errors: the peer may have disconnected
	}
	_ = conn.NetConn().Close()
	return failure.MarkHandshakeTimeout(err)
}

// notTLSAlert is the fatal alert unexpected_message (RFC 8446, sections 5.1 and 6). crypto/tls
// sends no alert to a peer without TLS, which could think that the server has crashed.
var notTLSAlert = []byte{recordAlert, recordMajorVersion, 1, 0, 2, 2, 10}

// recordAlert is the record type of an alert, the first byte of a TLS record. recordMajorVersion
// is the second byte.
const (
	recordAlert        = 21
	recordMajorVersion = 3
)

// Cleartext wraps a client's connection without TLS. Its Read returns a clear error if the peer's
// first bytes are a TLS alert; the protocol's parser would return a less helpful error.
func Cleartext(conn net.Conn) *CleartextConn { return &CleartextConn{Conn: conn} }

// CleartextConn is a connection without TLS that recognises a TLS peer.
type CleartextConn struct {
	net.Conn
	started bool // the first bytes have been checked; only the reader uses this field
}

var errPeerSpeaksTLS = failure.WithClass(failure.PlaintextPeer, errors.New("the server speaks TLS, but this client uses cleartext"))

// CheckCleartext returns an error if a peer's first bytes are a TLS alert.
func CheckCleartext(first []byte) error {
	if len(first) > 1 && first[0] == recordAlert && first[1] == recordMajorVersion {
		return errPeerSpeaksTLS
	}
	return nil
}

// Socket returns the wrapped connection. The caller may write to it at any time, and read from it
// after the first Read.
func (c *CleartextConn) Socket() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *CleartextConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.started || n == 0 {
		return n, err
	}
	c.started = true
	if err := CheckCleartext(p[:n]); err != nil {
		return 0, err
	}
	return n, err
}

func authInfo(conn *tls.Conn) credentials.TLSInfo {
	return credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}
}

// Credentials returns credentials for a gRPC library that gets its connections from Open. With TLS,
// Open has already done the handshake, so that the Dialer counts and times it.
func (o *Opener) Credentials() credentials.TransportCredentials {
	if o.TLS == nil {
		return insecure.NewCredentials()
	}
	return clientCredentials{tlsCredentials}
}

// tlsCredentials provides all methods of clientCredentials except the handshakes.
var tlsCredentials = credentials.NewTLS(nil)

// clientCredentials accept connections whose TLS handshake is done.
type clientCredentials struct {
	credentials.TransportCredentials
}

func (clientCredentials) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := findConn[*tls.Conn](raw)
	if !ok {
		return nil, nil, errors.New("the gRPC library got a connection without TLS, but its credentials need TLS")
	}
	return raw, authInfo(conn), nil
}

func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

// ServerCredentials returns credentials that do the handshake on the connection's goroutine, unless
// LimitHandshakes has done it. When ctx ends, running handshakes fail, so that a gRPC library does
// not wait for a silent peer.
func ServerCredentials(ctx context.Context, config *tls.Config) credentials.TransportCredentials {
	return serverCredentials{TransportCredentials: tlsCredentials, ctx: ctx, config: config}
}

type serverCredentials struct {
	credentials.TransportCredentials
	ctx    context.Context
	config *tls.Config
}

func (s serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*tls.Conn)
	if !ok {
		conn = tls.Server(raw, s.config)
	}
	if err := ServerHandshake(s.ctx, conn); err != nil {
		return nil, nil, err
	}
	return conn, authInfo(conn), nil
}

func (s serverCredentials) Clone() credentials.TransportCredentials { return s }

// SessionCache holds the newest TLS session of one server. Await waits for the first session.
type SessionCache struct {
	filled chan struct{}
	first  sync.Once

	mu     sync.Mutex
	newest *tls.ClientSessionState
}

// NewSessionCache makes an empty cache.
func NewSessionCache() *SessionCache { return &SessionCache{filled: make(chan struct{})} }

// Await waits for the first session, at most HandshakeTimeout. The server sends the session after
// the handshake (RFC 8446, section 4.6.1), so the connection must stay open. life is a context that
// ends with the connection.
func (s *SessionCache) Await(ctx, life context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	var err error
	select {
	case <-s.filled:
		return nil
	case <-life.Done():
		err = context.Cause(life)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if _, has := s.Get(""); has { // the session may have arrived just before ctx or life ended
		return nil
	}
	return fmt.Errorf("the server sent no TLS session ticket, so no session can be resumed: %w", err)
}

// Get implements tls.ClientSessionCache.
func (s *SessionCache) Get(string) (*tls.ClientSessionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.newest != nil
}

// Put implements tls.ClientSessionCache. A nil session empties the cache.
func (s *SessionCache) Put(_ string, session *tls.ClientSessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = session
	if session != nil {
		s.first.Do(func() { close(s.filled) })
	}
}

// PrimeSession stores a TLS session in the configuration's cache. It opens a connection, waits for
// the server's ticket and closes the connection. Later connections resume the session and store
// their own tickets.
func (o *Opener) PrimeSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	sessions := NewSessionCache()
	o.TLS.ClientSessionCache = sessions
	conn, err := o.Open(ctx)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer func() { _ = conn.Close() }()
	life, end := context.WithCancelCause(context.Background())
	reading.Go(func() { // ends when the connection is closed
		_, err := conn.Read(make([]byte, 1)) // crypto/tls handles a ticket only during Read
		end(err)
	})
	return sessions.Await(ctx, life)
}
