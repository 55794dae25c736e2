package conn

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/congestion"
)

// Counts holds the numbers of connections that a Dialer opened. It counts them as they
// happen, and does not compute them from what was requested.
type Counts struct {
	Opened int64 `json:"opened"` // since the dialer was made
	Failed int64 `json:"failed"` // attempts that did not become a connection
	Open   int64 `json:"open"`   // now

	Full          int64 `json:"full,omitempty"`           // TLS handshakes with a certificate
	Resumed       int64 `json:"resumed,omitempty"`        // TLS handshakes that resumed a session
	Early         int64 `json:"early,omitempty"`          // of those, with early data that the server accepted
	EarlyRefused  int64 `json:"early_refused,omitempty"`  // with early data that the server rejected
	HandshakeFail int64 `json:"handshake_fail,omitempty"` // connections whose handshake failed
}

// Since returns the difference to an earlier count. Open stays the current value.
func (c Counts) Since(earlier Counts) Counts {
	c.Opened -= earlier.Opened
	c.Failed -= earlier.Failed
	c.Full -= earlier.Full
	c.Resumed -= earlier.Resumed
	c.Early -= earlier.Early
	c.EarlyRefused -= earlier.EarlyRefused
	c.HandshakeFail -= earlier.HandshakeFail
	return c
}

// Plus returns the counts of both.
func (c Counts) Plus(other Counts) Counts {
	c.Opened += other.Opened
	c.Failed += other.Failed
	c.Open += other.Open
	c.Full += other.Full
	c.Resumed += other.Resumed
	c.Early += other.Early
	c.EarlyRefused += other.EarlyRefused
	c.HandshakeFail += other.HandshakeFail
	return c
}

// Dialer opens connections, counts them, and times connect, handshake and first
// byte. All clients' connections come from a Dialer, so that the counts mean the
// same for every stack. Any goroutine may use it; the zero value is ready.
//
// The end that closes a connection first keeps its address and port in TIME_WAIT
// for a minute. That is the client here, as in most programs. One address has only
// some 28,000 ports, so a client that opens many connections runs out of them.
// Sources avoids that.
type Dialer struct {
	// Sources is the number of source addresses that the connections use in turns, if
	// the destination is on IPv4 loopback. For other destinations that is impossible;
	// with more than one source, connections then end with a reset, which leaves
	// no TIME_WAIT. 0 and 1 do neither. Set it before the first connection.
	Sources int
	// Congestion is the congestion control of TCP connections; empty: the machine's.
	// Set it before the first connection.
	Congestion string
	// Records counts the TLS records of every connection; all connections must
	// then use TLS. Nil counts nothing. Set it before the first connection.
	Records *Records

	next atomic.Uint32 // source

	mu         sync.Mutex
	counts     Counts
	times      Times
	negotiated record.Negotiated

	traffic dialTraffic
}

// Times holds the distributions of the times that opening connections took. A nil
// recorder has no samples. The caller of TakeTimes calls Close.
type Times struct {
	Connect   *latency.Recorder // TCP: from the SYN to the established connection
	Handshake *latency.Recorder // TLS or QUIC: until it was done at the client
	FirstByte *latency.Recorder // from the beginning of a call with its own connection to its answer's first byte
}

// Close frees the recorders' memory.
func (t Times) Close() {
	for _, r := range []*latency.Recorder{t.Connect, t.Handshake, t.FirstByte} {
		if r != nil {
			r.Close()
		}
	}
}

// DialContext opens a TCP connection. It has the signature that net/http and grpc-go
// require.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer, resetOnClose := d.dialerTo(address)
	begin := time.Now()
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		d.Failed()
		return nil, err
	}
	if local, is := conn.(*net.UnixConn); is { // the kernel counts nothing of these
		return &unixConn{UnixConn: local, closed: d.Opened()}, nil
	}
	if resetOnClose {
		_ = conn.(*net.TCPConn).SetLinger(0) // on an error it closes as usual
	}
	d.observe(func(t *Times) **latency.Recorder { return &t.Connect }, time.Since(begin))
	d.usedCongestion(congestion.Of(conn.(*net.TCPConn)))
	counted := &countedConn{TCPConn: conn.(*net.TCPConn), closed: d.Opened(), traffic: &d.traffic}
	d.traffic.add(counted)
	if d.Records != nil {
		return &recordConn{Conn: counted, records: d.Records}, nil
	}
	return counted, nil
}

// dialerTo chooses the next connection's source address. If it needs several
// addresses and has only one, the connection must be reset when it closes.
func (d *Dialer) dialerTo(address string) (dialer net.Dialer, resetOnClose bool) {
	dialer.Control = congestion.Control(d.Congestion)
	if d.Sources <= 1 {
		return dialer, false
	}
	ip, found := sourceOf(d.next.Add(1)%uint32(d.Sources), address)
	if !found || !manyLoopbackAddresses {
		return dialer, true
	}
	dialer.LocalAddr, dialer.Control = &net.TCPAddr{IP: ip}, congestion.Both(bindWithoutPort, dialer.Control)
	return dialer, false
}

// HandshakeTLS does the TLS handshake on a connection from DialContext. A wrapper
// around that connection must have a method NetConn, as tls.Conn has. If the
// handshake fails, it closes the connection.
func (d *Dialer) HandshakeTLS(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(raw, config)
	begin := time.Now()
	if err := conn.HandshakeContext(ctx); err != nil {
		d.HandshakeFailed()
		_ = raw.Close()
		return nil, failure.InHandshake(err)
	}
	took := time.Since(begin)
	d.traffic.countHandshake(raw)
	d.Handshake(Handshake{Took: took, State: conn.ConnectionState()})
	return conn, nil
}

// Opened counts a connection that DialContext did not make. Call the function that
// it returns when the connection is closed; further calls of it do nothing.
func (d *Dialer) Opened() (closed func()) {
	d.count(func(c *Counts) { c.Opened++; c.Open++ })
	return sync.OnceFunc(func() { d.count(func(c *Counts) { c.Open-- }) })
}

// Failed counts a failed attempt to connect.
func (d *Dialer) Failed() { d.count(func(c *Counts) { c.Failed++ }) }

// HandshakeFailed counts a connection whose handshake failed.
func (d *Dialer) HandshakeFailed() { d.count(func(c *Counts) { c.HandshakeFail++ }) }

func (d *Dialer) count(what func(*Counts)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what(&d.counts)
}

// Handshake describes a completed TLS or QUIC handshake.
type Handshake struct {
	Took         time.Duration
	State        tls.ConnectionState
	Early        bool // the server accepted early data
	EarlyRefused bool // the server refused early data
}

// Handshake counts a handshake and the session that it negotiated.
func (d *Dialer) Handshake(h Handshake) {
	d.countSession(h.State)
	d.count(func(c *Counts) {
		if h.State.DidResume {
			c.Resumed++
		} else {
			c.Full++
		}
		if h.Early {
			c.Early++
		}
		if h.EarlyRefused {
			c.EarlyRefused++
		}
	})
	d.observe(func(t *Times) **latency.Recorder { return &t.Handshake }, h.Took)
}

// FirstByte records the time to first byte of a call with its own connection.
func (d *Dialer) FirstByte(took time.Duration) {
	d.observe(func(t *Times) **latency.Recorder { return &t.FirstByte }, took)
}

func (d *Dialer) observe(which func(*Times) **latency.Recorder, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := which(&d.times)
	if *h == nil {
		*h = latency.NewRecorder()
	}
	(*h).Record(int64(took))
}

// Counts returns the counts so far.
func (d *Dialer) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// TakeTimes returns the times recorded since its last call.
func (d *Dialer) TakeTimes() Times {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.times
	d.times = Times{}
	return t
}

// countedConn embeds the concrete type, so that writev, sendfile and SyscallConn
// keep working.
type countedConn struct {
	*net.TCPConn
	closed  func()
	traffic *dialTraffic
}

func (c *countedConn) Close() error {
	c.closed()
	c.traffic.remove(c)
	return c.TCPConn.Close()
}

// unixConn is a connection over a unix socket.
type unixConn struct {
	*net.UnixConn
	closed func()
}

func (c *unixConn) Close() error {
	c.closed()
	return c.UnixConn.Close()
}

// Settings lists the dialer's settings for connections to the address that are not the
// kernel's default.
func (d *Dialer) Settings(address string) []tuning.Setting {
	if d == nil || d.Sources <= 1 {
		return nil
	}
	if _, resetOnClose := d.dialerTo(address); resetOnClose {
		return []tuning.Setting{{Side: tuning.Client, Name: "SO_LINGER", Value: "0", Default: "unset", Why: "connections in TIME_WAIT would use up the ports"}}
	}
	return []tuning.Setting{{Side: tuning.Client, Name: "net.Dialer.LocalAddr", Value: strconv.Itoa(d.Sources) + " addresses of 127.0.0.0/8, in turns", Default: "the kernel's choice", Why: "the connections need more ports than one address has"}}
}
