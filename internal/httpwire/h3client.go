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

// h3Client carries requests over QUIC connections that live as the plan says.
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
	workers sync.WaitGroup // attempts, and the accounts of open connections

	mu       sync.Mutex
	attempts map[*context.CancelCauseFunc]struct{} // connections on their way
	open     map[*h3Conn]struct{}
	past     quicSums // of closed connections
}

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
		http:     newHTTP3Transport(),
		attempts: map[*context.CancelCauseFunc]struct{}{},
		open:     map[*h3Conn]struct{}{},
	}
	watch(c.config, plan.Dialer)
	c.observer = unobserved{}
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

// Close implements carrier. It takes up to a farewell where connections are on
// their way.
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
	sums.IPv6 = c.remote.IP.To4() == nil
	for conn := range c.open {
		sums.add(conn.quic)
	}
	return sums.total([]*udpSocket{c.socket})
}

// unobserved stands in for a Dialer that need not know of QUIC's connections.
type unobserved struct{}

func (unobserved) Opened() (closed func()) { return func() {} }
func (unobserved) Failed()                 {}
func (unobserved) HandshakeFailed()        {}
func (unobserved) Handshake(Handshake)     {}
