package stack

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/failure"
	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/record"
)

// ConnectionCounts is what a client achieved, counted where connections are
// made and not from what was asked.
type ConnectionCounts struct {
	Opened int64 `json:"opened"` // since the dialer was made
	Failed int64 `json:"failed"` // attempts that did not become a connection
	Open   int64 `json:"open"`   // now

	Full          int64 `json:"full,omitempty"`           // TLS handshakes with a certificate
	Resumed       int64 `json:"resumed,omitempty"`        // TLS handshakes that resumed a session
	Early         int64 `json:"early,omitempty"`          // of those, with early data that the server took
	EarlyRefused  int64 `json:"early_refused,omitempty"`  // with early data that it did not
	HandshakeFail int64 `json:"handshake_fail,omitempty"` // connections whose handshake failed
}

// Since is what happened after an earlier count; Open is as it is now.
func (c ConnectionCounts) Since(earlier ConnectionCounts) ConnectionCounts {
	c.Opened -= earlier.Opened
	c.Failed -= earlier.Failed
	c.Full -= earlier.Full
	c.Resumed -= earlier.Resumed
	c.Early -= earlier.Early
	c.EarlyRefused -= earlier.EarlyRefused
	c.HandshakeFail -= earlier.HandshakeFail
	return c
}

// Dialer opens connections, counts them, and takes the time of what happens on
// the way to the first byte. Every client's connections come from one, so that
// "connections achieved" means the same for all. Any goroutine may use it; the
// zero value is ready.
//
// Who closes a connection first keeps its address and port in TIME_WAIT for a
// minute. That is the client here, as it is with most clients, though it is the
// end that can least afford it: the ports of one address are some 28,000, and a
// server needs none. Sources lets it afford it nevertheless.
type Dialer struct {
	// Sources is how many addresses connections come from, in turn, where the
	// destination is on IPv4 loopback. Where it is not there is no such choice,
	// and connections that would need more than one address end with a reset
	// instead, after which nobody keeps anything. 0 or 1: neither is done. Set
	// it before the first connection.
	Sources int
	// Records counts the records of every connection, which then must go over
	// TLS. Nil: nothing is counted. Set it before the first connection.
	Records *Records

	next atomic.Uint32 // source

	opened, failed, open                              atomic.Int64
	full, resumed, early, earlyRefused, handshakeFail atomic.Int64

	mu         sync.Mutex
	times      ConnectionTimes
	negotiated record.Negotiated

	traffic dialTraffic
}

// ConnectionTimes are the distributions of a connection's beginnings. An absent
// one never happened. Whoever takes them closes the recorders.
type ConnectionTimes struct {
	Connect   *latency.Recorder // TCP: from the SYN to the established connection
	Handshake *latency.Recorder // TLS or QUIC: until it was done at the client
	FirstByte *latency.Recorder // from the beginning of a call on a connection of its own to its answer's first byte
}

// Close gives back the recorders' memory.
func (t ConnectionTimes) Close() {
	for _, r := range []*latency.Recorder{t.Connect, t.Handshake, t.FirstByte} {
		if r != nil {
			r.Close()
		}
	}
}

// DialContext opens a TCP connection. It has the form that net/http and grpc-go
// ask for.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer, leavesNothing := d.dialerTo(address)
	begin := time.Now()
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		d.Failed()
		return nil, err
	}
	if leavesNothing {
		_ = conn.(*net.TCPConn).SetLinger(0) // refused, it closes as others do
	}
	d.observe(func(t *ConnectionTimes) **latency.Recorder { return &t.Connect }, time.Since(begin))
	counted := &countedConn{TCPConn: conn.(*net.TCPConn), closed: d.Opened(), traffic: &d.traffic}
	d.traffic.enter(counted)
	if d.Records != nil {
		return &recordConn{Conn: counted, home: d.Records}, nil
	}
	return counted, nil
}

// dialerTo chooses the next connection's source. Where there is nothing to
// choose, the connection must leave no TIME_WAIT.
func (d *Dialer) dialerTo(address string) (dialer net.Dialer, leavesNothing bool) {
	if d.Sources <= 1 {
		return dialer, false
	}
	ip, found := sourceOf(d.next.Add(1)%uint32(d.Sources), address)
	if !found || !spreads {
		return dialer, true
	}
	dialer.LocalAddr, dialer.Control = &net.TCPAddr{IP: ip}, bindWithoutPort
	return dialer, false
}

// DialTLS opens a TCP connection and shakes hands on it.
func (d *Dialer) DialTLS(ctx context.Context, address string, config *tls.Config) (*tls.Conn, error) {
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return d.ShakeHands(ctx, raw, config)
}

// ShakeHands is DialTLS on a connection that DialContext has opened. What is
// wrapped around that has a method NetConn, as a tls.Conn has. Where the
// handshake fails it is closed.
func (d *Dialer) ShakeHands(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(raw, config)
	begin := time.Now()
	if err := conn.HandshakeContext(ctx); err != nil {
		d.HandshakeFailed()
		_ = raw.Close()
		return nil, failure.InHandshake(err)
	}
	took := time.Since(begin)
	d.traffic.shaken(raw)
	d.Handshake(Handshake{Took: took, State: conn.ConnectionState()})
	return conn, nil
}

// Opened counts a connection that was made otherwise than by DialContext. The
// function that it returns says that the connection is closed; it may be called
// again.
func (d *Dialer) Opened() (closed func()) {
	d.opened.Add(1)
	d.open.Add(1)
	return sync.OnceFunc(func() { d.open.Add(-1) })
}

// Failed counts an attempt that did not become a connection.
func (d *Dialer) Failed() { d.failed.Add(1) }

// HandshakeFailed counts a connection that got no further than its handshake.
func (d *Dialer) HandshakeFailed() { d.handshakeFail.Add(1) }

// Handshake is one that was done.
type Handshake = httpwire.Handshake

// Handshake counts one, and keeps what it agreed on.
func (d *Dialer) Handshake(h Handshake) {
	d.agreed(h.State)
	if h.State.DidResume {
		d.resumed.Add(1)
	} else {
		d.full.Add(1)
	}
	if h.Early {
		d.early.Add(1)
	}
	if h.EarlyRefused {
		d.earlyRefused.Add(1)
	}
	d.observe(func(t *ConnectionTimes) **latency.Recorder { return &t.Handshake }, h.Took)
}

// FirstByte takes the time of a call on a connection of its own.
func (d *Dialer) FirstByte(took time.Duration) {
	d.observe(func(t *ConnectionTimes) **latency.Recorder { return &t.FirstByte }, took)
}

func (d *Dialer) observe(which func(*ConnectionTimes) **latency.Recorder, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := which(&d.times)
	if *h == nil {
		*h = latency.NewRecorder()
	}
	(*h).Record(int64(took))
}

// Counts returns what was achieved so far.
func (d *Dialer) Counts() ConnectionCounts {
	return ConnectionCounts{
		Opened: d.opened.Load(), Failed: d.failed.Load(), Open: d.open.Load(),
		Full: d.full.Load(), Resumed: d.resumed.Load(),
		Early: d.early.Load(), EarlyRefused: d.earlyRefused.Load(), HandshakeFail: d.handshakeFail.Load(),
	}
}

// TakeTimes returns what was timed since it was last called.
func (d *Dialer) TakeTimes() ConnectionTimes {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.times
	d.times = ConnectionTimes{}
	return t
}

// DialerOf is the target's dialer, or a new one.
func DialerOf(t Target) *Dialer {
	if t.Dialer != nil {
		return t.Dialer
	}
	return &Dialer{}
}

// countedConn embeds the concrete type, so that writev, sendfile and
// SyscallConn stay within reach of whoever looks for them.
type countedConn struct {
	*net.TCPConn
	closed  func()
	traffic *dialTraffic
}

func (c *countedConn) Close() error {
	c.closed()
	c.traffic.leave(c)
	return c.TCPConn.Close()
}
