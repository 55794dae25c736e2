package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"wirelab.dev/internal/base/failure"
)

// HandshakeTimeout bounds a server's TLS handshakes. It is the default of
// net/http's Transport.
const HandshakeTimeout = 10 * time.Second

// Admit returns a listener whose TLS connections have finished the handshake. At
// most bound handshakes run at the same time. Further connections wait in the
// kernel's accept queue, where they cost this process nothing. A burst of new
// connections is thus served in order; without the bound, thousands of handshakes
// would run at once and all take as long as the slowest.
func Admit(listener net.Listener, config *tls.Config, bound int) net.Listener {
	a := &admission{Listener: listener, config: config, arrivals: make(chan arrival)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	for range bound {
		a.workers.Go(a.work)
	}
	return a
}

type admission struct {
	net.Listener
	config   *tls.Config
	arrivals chan arrival

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	workers sync.WaitGroup // one for each handshake that may run at once
}

// An arrival holds the results of Accept.
type arrival struct {
	conn net.Conn
	err  error
}

// work accepts connections and does their handshakes until the listener is closed.
func (a *admission) work() {
	for {
		raw, err := a.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		next := arrival{err: err}
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

func (a *admission) Accept() (net.Conn, error) {
	select {
	case next := <-a.arrivals:
		return next.conn, next.err
	case <-a.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close stops listening and aborts the handshakes in progress.
func (a *admission) Close() error {
	a.cancel()
	err := a.Listener.Close()
	a.workers.Wait()
	return err
}

// ServerHandshake does the server's side of a TLS handshake, within
// HandshakeTimeout. If it fails, it closes the connection; a peer that does not
// speak TLS gets an alert first. It does nothing if the handshake was done before.
func ServerHandshake(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil {
		_, _ = header.Conn.Write(notTLS) // the peer may have gone already
	}
	_ = conn.NetConn().Close()
	return failure.InHandshake(err)
}

// notTLS is the fatal alert unexpected_message (RFC 8446, sections 5.1 and 6).
// crypto/tls closes the connection of a peer that does not speak TLS without an
// alert, which looks to the peer like a crash of the server.
var notTLS = []byte{recordAlert, recordMajor, 1, 0, 2, 2, 10}

// The beginning of a TLS record: its type, and the first byte of its version.
const (
	recordAlert = 21
	recordMajor = 3
)

// Cleartext wraps a client's connection without TLS. If the peer's first bytes are
// a TLS alert, Read returns an error that says so. Otherwise the protocol's parser
// would fail on those bytes with a less helpful error.
func Cleartext(conn net.Conn) *CleartextConn { return &CleartextConn{Conn: conn} }

// CleartextConn is made by Cleartext.
type CleartextConn struct {
	net.Conn
	started bool // used by the reader only
}

var errPeerSpeaksTLS = failure.As(failure.PlaintextPeer, errors.New("the server speaks TLS, and this client was told to use cleartext"))

// Socket returns the connection below, which may be used for writes and, after the
// first read, for reads.
func (c *CleartextConn) Socket() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *CleartextConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.started || n == 0 {
		return n, err
	}
	c.started = true
	if n > 1 && p[0] == recordAlert && p[1] == recordMajor {
		return 0, errPeerSpeaksTLS
	}
	return n, err
}
