package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlogwriter"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http/quicsocket"
)

// This package dials HTTP/3 connections itself and passes each one to quic-go's http3.Transport,
// which would otherwise keep one connection per host.
//
// All connections of a client share one UDP socket. Connection IDs distinguish them.

// keepAlive is the keep-alive period of http3's default configuration.
const keepAlive = 10 * time.Second

// h3ClientConfig returns quic-go's configuration for a client. h3Settings explains each value.
//
// These changes brought no gain, so they are left out: several UDP sockets, larger first packets,
// and no path MTU discovery on connections of one request.
func h3ClientConfig(lifecycle conn.Lifecycle) *quic.Config {
	config := &quic.Config{
		MaxIncomingStreams:   -1,               // servers open no two-way streams (RFC 9114, section 6.1)
		HandshakeIdleTimeout: 30 * time.Second, // limits calls without a deadline
	}
	if lifecycle == conn.Kept {
		config.KeepAlivePeriod = keepAlive
	}
	return config
}

type h3Client struct {
	plan   ClientPlan
	tls    *tls.Config
	config *quic.Config
	remote *net.UDPAddr
	socket *quicsocket.Socket
	quic   *quic.Transport
	http   *http3.Transport // makes http3.ClientConns; it never dials

	sessions *conn.SessionCache // nil, unless connections resume a session
	life     context.Context    // ends when Close is called
	endLife  context.CancelFunc
	workers  sync.WaitGroup // counts dial attempts and open connections

	mu       sync.Mutex
	attempts map[*context.CancelCauseFunc]struct{} // connections that are being opened
	open     map[*h3Conn]struct{}
	closed   conn.Traffic // sum over all closed connections
}

func newH3Client(ctx context.Context, plan ClientPlan) (*h3Client, error) {
	remote, err := resolveUDP(ctx, plan.Address)
	if err != nil {
		return nil, err
	}
	// Only a connected UDP socket gets an error if no process listens on the port.
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
	c.socket = quicsocket.New(socket, c.cancelAttempts)
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

func (c *h3Client) connect(ctx context.Context) (connection, error) {
	opened, err := c.dial(ctx)
	if err != nil {
		return nil, err // do not return opened: a nil *h3Conn would be a non-nil connection
	}
	return opened, nil
}

// verify implements connector. It sends nothing: the QUIC handshake has chosen HTTP/3 already.
func (c *h3Client) verify(ctx context.Context, opened connection) error {
	if c.sessions == nil {
		return nil
	}
	return c.sessions.Await(ctx, opened.(*h3Conn).quic.Context())
}

// waitError implements connector. Another request's QUIC handshake did not end in time.
func (*h3Client) waitError(err error) error { return handshakeError(err) }

// Close waits up to closeGrace for connections that are being opened.
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

// Traffic returns the sum of all connections' traffic.
func (c *h3Client) Traffic() conn.Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.closed
	for opened := range c.open {
		addQUICTraffic(&t, opened.quic)
	}
	t.Transport, t.HeaderBytes = "udp", conn.DatagramHeaderBytes(c.remote.IP.To4() == nil)
	if n := t.OpenRTT.Count; n > 0 { // closed connections have no RTT in quic-go, so sums over time cannot be compared
		t.OpenRTT = conn.MeanRTT{Sum: t.OpenRTT.Sum / time.Duration(n), Count: 1}
	}
	t.SendCalls, t.ReceiveCalls = c.socket.SendCalls.Load(), c.socket.ReceiveCalls.Load()
	t.SentPackets, t.ReceivedPackets = c.socket.Sent.Load(), c.socket.Received.Load()
	return t
}

// quicSessions gives each caller its own copy of the session, because quic-go modifies it.
type quicSessions struct{ *conn.SessionCache }

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

type h3Conn struct {
	quic *quic.Conn
	http *http3.ClientConn // nil with early data: exchange then sends the request
	gone chan struct{}     // closed when the connection has ended and is counted
	// handshake is closed when the handshake is done and counted. It is nil without early data.
	handshake chan struct{}
}

// track counts a connection and lists it, so that Close can close it.
func (c *h3Client) track(dialed *quic.Conn) *h3Conn {
	opened := &h3Conn{quic: dialed, gone: make(chan struct{})}
	closed := c.plan.Dialer.Opened()
	c.mu.Lock()
	c.open[opened] = struct{}{}
	c.workers.Add(1) // cannot race with Wait: the running attempt keeps the count above zero
	c.mu.Unlock()
	context.AfterFunc(dialed.Context(), func() {
		defer c.workers.Done()
		defer close(opened.gone)
		closed()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, opened)
		addQUICTraffic(&c.closed, dialed)
	})
	if c.life.Err() != nil { // Close may have closed all of c.open before
		_ = opened.Close()
	}
	return opened
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (c *h3Conn) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.http.RoundTrip(request)
	if err != nil {
		return failRequest(request, err)
	}
	return response, nil
}

// Close closes the connection and waits for its end.
func (c *h3Conn) Close() error {
	closeQUIC(c.quic)
	<-c.gone
	return nil
}

// Err returns the reason why the connection ended, or nil.
func (c *h3Conn) Err() error { return c.quic.Context().Err() }

func addQUICTraffic(to *conn.Traffic, one *quic.Conn) {
	stats := one.ConnectionStats()
	to.SentBytes += int64(stats.BytesSent)
	to.ReceivedBytes += int64(stats.BytesReceived)
	to.Retransmits += int64(stats.PacketsLost)
	to.GSO = to.GSO || one.ConnectionState().GSO
	if stats.PacketsReceived == 0 || stats.SmoothedRTT == 0 {
		return
	}
	to.OpenRTT.Count++
	to.OpenRTT.Sum += stats.SmoothedRTT
	if to.MinRTT == 0 || stats.MinRTT < to.MinRTT {
		to.MinRTT = stats.MinRTT
	}
}
