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
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// h3Client sends requests over QUIC connections as the plan's lifecycle demands.
type h3Client struct {
	plan     ClientPlan
	observer QUICObserver
	tls      *tls.Config
	config   *quic.Config
	remote   *net.UDPAddr
	socket   *udpSocket
	quic     *quic.Transport
	http     *http3.Transport // makes http3.ClientConns; it never dials

	slots []h3Slot // Kept
	turn  atomic.Uint64

	life    context.Context // ends with Close
	endLife context.CancelFunc
	workers sync.WaitGroup // dial attempts and open connections

	mu       sync.Mutex
	attempts map[*context.CancelCauseFunc]struct{} // connections being opened
	open     map[*h3Conn]struct{}
	closed   quicSums // of closed connections
}

// newH3Client opens the plan's connections over HTTP/3.
func newH3Client(ctx context.Context, plan ClientPlan) (carrier, error) {
	remote, err := resolveUDP(ctx, plan.Address)
	if err != nil {
		return nil, fmt.Errorf("httpwire: HTTP/3 to %s: %w", plan.Address, err)
	}
	// A connected UDP socket gets an error if no process listens on the port.
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
		http:     newHTTP3Transport(),
		attempts: map[*context.CancelCauseFunc]struct{}{},
		open:     map[*h3Conn]struct{}{},
	}
	countFrames(c.config, plan.Dialer)
	c.observer = noObserver{}
	if observer, is := plan.Dialer.(QUICObserver); is {
		c.observer = observer
	}
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

// prepare opens the connections that are kept, or obtains the session that later
// ones resume.
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
		conn, err := c.dial(ctx) // fails if there is no server
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
		return c.roundTripSingle(request)
	}
	slot := &c.slots[c.turn.Add(1)%uint64(len(c.slots))]
	conn, err := slot.conn(request.Context(), c)
	if err != nil {
		return nil, err
	}
	return conn.http.RoundTrip(request)
}

// roundTripSingle opens a connection for the request, and closes it with the
// response's body.
func (c *h3Client) roundTripSingle(request *http.Request) (*http.Response, error) {
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
	response.Body = conn.closeAfter(request.Context(), response.Body)
	return response, nil
}

// Close implements carrier. It takes up to closeGrace if connections are being
// opened.
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

// Traffic adds up what all connections counted.
func (c *h3Client) Traffic() QUICTraffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := c.closed
	sums.IPv6 = c.remote.IP.To4() == nil
	for conn := range c.open {
		sums.add(conn.quic)
	}
	return sums.total([]*udpSocket{c.socket})
}

// noObserver is used with a Dialer that is not a QUICObserver.
type noObserver struct{}

func (noObserver) Opened() (closed func()) { return func() {} }
func (noObserver) Failed()                 {}
func (noObserver) HandshakeFailed()        {}
func (noObserver) Handshake(Handshake)     {}
