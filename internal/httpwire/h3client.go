package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// h3Client carries requests over QUIC connections that live as the plan says.
type h3Client struct {
	plan   ClientPlan
	tls    *tls.Config
	config *quic.Config
	remote *net.UDPAddr
	socket *udpSocket
	quic   *quic.Transport
	http   http3.Transport // makes http3.ClientConns; it never dials

	slots []h3Slot // Kept
	turn  atomic.Uint64

	life    context.Context // ends with Close
	endLife context.CancelFunc
	workers sync.WaitGroup // attempts, and the accounts of open connections

	mu       sync.Mutex
	attempts map[*context.CancelCauseFunc]struct{} // connections on their way
	open     map[*h3Conn]struct{}
	past     quicSums // of closed connections
}

var errRefused = fmt.Errorf("the host answers that nobody listens there: %w", syscall.ECONNREFUSED)

// newH3Client opens HTTP/3's connections.
func newH3Client(ctx context.Context, plan ClientPlan) (carrier, error) {
	remote, err := resolveUDP(ctx, plan.Address)
	if err != nil {
		return nil, fmt.Errorf("httpwire: HTTP/3 to %s: %w", plan.Address, err)
	}
	// A socket that is connected sends to no one else, which is all that a
	// client of one server wants, and hears of it when nobody listens there.
	conn, err := net.DialUDP("udp", nil, remote)
	if err != nil {
		return nil, fmt.Errorf("httpwire: HTTP/3 to %s: %w", plan.Address, err)
	}
	c := &h3Client{
		plan:     plan,
		tls:      plan.TLS.Clone(),
		config:   h3ClientConfig(plan.Lifecycle),
		remote:   remote,
		socket:   newUDPSocket(conn),
		http:     http3.Transport{DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes},
		attempts: map[*context.CancelCauseFunc]struct{}{},
		open:     map[*h3Conn]struct{}{},
	}
	watch(c.config, plan.Dialer)
	c.tls.NextProtos = HTTP3.Protocols()
	c.socket.refused = c.refuse
	c.quic = &quic.Transport{Conn: c.socket, ConnectionIDLength: connectionIDBytes}
	c.life, c.endLife = context.WithCancel(context.Background())
	if err := c.prepare(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("httpwire: HTTP/3 to %s: %w", plan.Address, err)
	}
	return c, nil
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

// prepare opens what is kept, and obtains what is to be resumed.
func (c *h3Client) prepare(ctx context.Context) error {
	switch c.plan.Lifecycle {
	case Kept:
		c.slots = make([]h3Slot, max(c.plan.Connections, 1))
		for i := range c.slots {
			if _, err := c.slots[i].conn(ctx, c); err != nil {
				return err
			}
		}
		return nil
	case Fresh:
		c.tls.ClientSessionCache = nil
		conn, err := c.dial(ctx) // an absent server is no client's
		if err != nil {
			return err
		}
		conn.close()
		return nil
	default:
		return c.obtainSession(ctx)
	}
}

// RoundTrip implements http.RoundTripper.
func (c *h3Client) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.roundTrip(request)
	if err != nil && request.Body != nil {
		_ = request.Body.Close()
	}
	return response, err
}

func (c *h3Client) roundTrip(request *http.Request) (*http.Response, error) {
	switch c.plan.Lifecycle {
	case Kept:
	case Early:
		return c.roundTripEarly(request)
	default:
		return c.roundTripAlone(request)
	}
	slot := &c.slots[c.turn.Add(1)%uint64(len(c.slots))]
	conn, err := slot.conn(request.Context(), c)
	if err != nil {
		return nil, err
	}
	return conn.http.RoundTrip(request)
}

// roundTripAlone gives the request a connection, which is closed with the
// response's body.
func (c *h3Client) roundTripAlone(request *http.Request) (*http.Response, error) {
	begin := time.Now()
	conn, err := c.dial(request.Context())
	if err != nil {
		return nil, err
	}
	response, err := conn.http.RoundTrip(request)
	if err != nil {
		conn.close()
		return nil, err
	}
	c.plan.Dialer.FirstByte(time.Since(begin))
	response.Body = conn.closeWith(request.Context(), response.Body)
	return response, nil
}

// dial opens a connection and shakes hands on it.
func (c *h3Client) dial(ctx context.Context) (*h3Conn, error) {
	ctx, cancel, err := c.attempt(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	begin := time.Now()
	conn, err := c.quic.Dial(ctx, c.remote, c.tls, c.config)
	if err != nil {
		c.account(err)
		return nil, fmt.Errorf("open a QUIC connection: %w", err)
	}
	took := time.Since(begin)
	opened := c.adopt(conn)
	opened.http = c.http.NewClientConn(conn)
	c.plan.Dialer.Shaken(took, conn.ConnectionState().TLS.DidResume, false, false)
	return opened, nil
}

// account counts a connection that did not come about: one that was answered
// got as far as its handshake.
func (c *h3Client) account(err error) {
	var transport *quic.TransportError
	var version *quic.VersionNegotiationError
	if errors.As(err, &transport) || errors.As(err, &version) {
		c.plan.Dialer.HandshakeFailed()
		return
	}
	c.plan.Dialer.Failed()
}

// attempt is the context of a connection on its way.
func (c *h3Client) attempt(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		cancel(nil)
		return nil, nil, errClosed
	}
	c.workers.Add(1)
	c.attempts[&cancel] = struct{}{}
	return ctx, func() {
		c.mu.Lock()
		delete(c.attempts, &cancel)
		c.mu.Unlock()
		cancel(nil)
		c.workers.Done()
	}, nil
}

// refuse ends the attempts: TCP would have told them as much. A connection that
// stands is not ended by what anybody can forge (RFC 9000, section 14.2.1).
func (c *h3Client) refuse() { c.endAttempts(errRefused) }

func (c *h3Client) endAttempts(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.attempts {
		(*cancel)(why)
	}
}

// Close implements carrier.
func (c *h3Client) Close() error {
	c.mu.Lock()
	c.endLife()
	c.mu.Unlock()
	c.endAttempts(errClosed)
	c.mu.Lock()
	open := make([]*h3Conn, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	c.mu.Unlock()
	for _, conn := range open {
		conn.close()
	}
	c.workers.Wait()
	err := c.quic.Close()
	if closing := c.socket.Close(); closing != nil && !errors.Is(closing, net.ErrClosed) {
		err = errors.Join(err, closing)
	}
	return err
}

// Traffic sums up the connections.
func (c *h3Client) Traffic() QUICTraffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := c.past
	for conn := range c.open {
		sums.add(conn.quic)
	}
	return sums.total([]*udpSocket{c.socket})
}
