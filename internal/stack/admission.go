package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"wirelab.dev/internal/failure"
)

// handshakeTimeout is how long a server waits for a peer to shake hands: as
// long as net/http's Transport does.
const handshakeTimeout = 10 * time.Second

// Admit is a listener of TLS connections that have shaken hands, of which at
// most bound do so at the same time. Further ones wait to be accepted, where
// they cost the kernel a little memory and this process nothing: a storm of new
// connections then meets a queue, and not thousands of handshakes that all take
// as long as the slowest.
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
	workers sync.WaitGroup // as many as may shake hands at once
}

// arrival is what Accept returns.
type arrival struct {
	conn net.Conn
	err  error
}

// work takes connections one after the other until the listener is closed.
func (a *admission) work() {
	for {
		raw, err := a.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		next := arrival{err: err}
		if err == nil {
			conn := tls.Server(raw, a.config)
			if Shake(a.ctx, conn) != nil {
				continue // the peer knows why
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

// Close breaks off the handshakes in progress.
func (a *admission) Close() error {
	a.cancel()
	err := a.Listener.Close()
	a.workers.Wait()
	return err
}

// Shake is the server's side of a handshake, bounded in time. Where it fails the
// connection is closed, and a peer that does not speak TLS at all has been told
// so. A connection that has shaken hands already is left as it is.
func Shake(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil {
		_, _ = header.Conn.Write(notTLS) // it may have gone already
	}
	_ = conn.NetConn().Close()
	return failure.InHandshake(err)
}

// notTLS is the alert unexpected_message as a fatal one (RFC 8446, sections 5.1
// and 6). crypto/tls hangs up on a peer that does not speak TLS without a word,
// and the peer could not tell that from a server that crashed.
var notTLS = []byte{recordAlert, recordMajor, 1, 0, 2, 2, 10}

// The beginning of a TLS record: its type, and the first byte of its version.
const (
	recordAlert = 21
	recordMajor = 3
)

// Cleartext is a client's connection that is not to be TLS. Where the peer's
// first words are a TLS alert, that is what Read returns as its error, in place
// of whatever the wire would have made of those bytes.
func Cleartext(conn net.Conn) *CleartextConn { return &CleartextConn{Conn: conn} }

// CleartextConn is made by Cleartext.
type CleartextConn struct {
	net.Conn
	heard bool // the reader's alone
}

var errPeerSpeaksTLS = failure.As(failure.PlaintextPeer, errors.New("the server speaks TLS, and this client does not"))

// Socket is what may be used in the connection's place for writes, and for reads
// after the first.
func (c *CleartextConn) Socket() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *CleartextConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.heard || n == 0 {
		return n, err
	}
	c.heard = true
	if n > 1 && p[0] == recordAlert && p[1] == recordMajor {
		return 0, errPeerSpeaksTLS
	}
	return n, err
}
