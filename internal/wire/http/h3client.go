package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlogwriter"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http/quicsocket"
)

// h3Client opens QUIC connections.
type h3Client struct {
	plan   ClientPlan
	tls    *tls.Config
	config *quic.Config
	remote *net.UDPAddr
	socket *quicsocket.Socket
	quic   *quic.Transport
	http   *http3.Transport // makes http3.ClientConns; it never dials

	sessions *conn.SessionCache // nil, unless connections resume a session
	life     context.Context    // ends with Close
	endLife  context.CancelFunc
	workers  sync.WaitGroup // dial attempts and open connections

	mu       sync.Mutex
	attempts map[*context.CancelCauseFunc]struct{} // connections being opened
	open     map[*h3Conn]struct{}
	closed   quicSums // of closed connections
}

func newH3Client(ctx context.Context, plan ClientPlan) (*h3Client, error) {
	remote, err := resolveUDP(ctx, plan.Address)
	if err != nil {
		return nil, err
	}
	// A connected UDP socket gets an error if no process listens on the port.
	socket, err := net.DialUDP("udp", nil, remote)
	if err != nil {
		return nil, err
	}
	c := &h3Client{
		plan:     plan,
		tls:      plan.TLS.Clone(),
		config:   h3ClientConfig(plan.Lifecycle),
		remote:   remote,
		http:     newHTTP3Transport(),
		attempts: map[*context.CancelCauseFunc]struct{}{},
		open:     map[*h3Conn]struct{}{},
	}
	if frames := plan.Dialer.Frames(); frames != nil {
		c.config.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return frames }
	}
	c.tls.NextProtos = HTTP3.Protocols()
	switch plan.Lifecycle {
	case conn.Resumed, conn.Early:
		c.sessions = conn.NewSessionCache()
		c.tls.ClientSessionCache = quicSessions{c.sessions}
	default:
		c.tls.ClientSessionCache = nil
	}
	c.socket = quicsocket.New(socket, c.refuse)
	c.quic = &quic.Transport{Conn: c.socket, ConnectionIDLength: quicsocket.ConnectionIDBytes}
	c.life, c.endLife = context.WithCancel(context.Background())
	return c, nil
}

func newHTTP3Transport() *http3.Transport {
	return &http3.Transport{DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes}
}

func resolveUDP(ctx context.Context, address string) (*net.UDPAddr, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return nil, err
	}
	return &net.UDPAddr{IP: addresses[0].Unmap().AsSlice(), Port: number, Zone: addresses[0].Zone()}, nil
}

// connect implements connector.
func (c *h3Client) connect(ctx context.Context) (connection, error) {
	opened, err := c.dial(ctx)
	if err != nil {
		return nil, err // not opened: a nil *h3Conn is a non-nil connection
	}
	return opened, nil
}

// verify implements connector. The handshake has agreed on HTTP/3 already.
func (c *h3Client) verify(ctx context.Context, opened connection) error {
	if c.sessions == nil {
		return nil
	}
	return c.sessions.Await(ctx, opened.(*h3Conn).quic.Context())
}

// waitError implements connector. QUIC begins with its handshake.
func (*h3Client) waitError(err error) error { return handshakeError(err) }

// Close implements connector. It takes up to closeGrace if connections are being
// opened.
func (c *h3Client) Close() error {
	c.mu.Lock()
	c.endLife()
	c.mu.Unlock()
	c.endAttempts(errClosed)
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
	c.workers.Wait()
	err := c.quic.Close()
	if closing := c.socket.Close(); closing != nil && !errors.Is(closing, net.ErrClosed) {
		err = errors.Join(err, closing)
	}
	return err
}

// Traffic adds up what all connections counted.
func (c *h3Client) Traffic() conn.Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := c.closed
	for opened := range c.open {
		sums.add(opened.quic)
	}
	return sums.total(c.socket, c.remote.IP.To4() == nil)
}

// quicSessions returns a copy of the session to each caller: quic-go modifies it.
type quicSessions struct{ *conn.SessionCache }

// Get implements tls.ClientSessionCache.
func (s quicSessions) Get(key string) (*tls.ClientSessionState, bool) {
	newest, _ := s.SessionCache.Get(key)
	ticket, state, err := newest.ResumptionState()
	if err != nil || state == nil {
		return nil, false
	}
	own := *state
	session, err := tls.NewResumptionState(ticket, &own)
	return session, err == nil
}
