package conn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/sockopt"
)

// Dialer opens, counts and times connections. All stacks use it, so their counts are comparable.
// Any goroutine may use it; the zero value is ready.
//
// The client closes its TCP connections first, so each port stays in TIME_WAIT for a minute. One
// address has only about 28,000 ports. The field Sources adds addresses.
type Dialer struct {
	// Sources is the number of source addresses that connections to IPv4 loopback use in turn. If
	// Sources is above 1, connections to other addresses end with a reset, which leaves no
	// TIME_WAIT. Set Sources before the first connection.
	Sources int
	Socket  sockopt.Options // options of TCP connections; set them before the first connection
	// Records counts the TLS records of every connection, if it is not nil. All connections must
	// then use TLS. Set Records before the first connection.
	Records *Records

	next atomic.Uint32 // index of the next source address

	mu         sync.Mutex
	counts     Counts
	times      Times
	negotiated record.Negotiated

	traffic dialTraffic
}

// DialContext opens a TCP connection, with the signature that net/http and grpc-go require.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer, resetOnClose := d.dialerTo(address)
	begin := time.Now()
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		d.Failed()
		return nil, err
	}
	if local, is := conn.(*net.UnixConn); is { // the kernel has no traffic counts for unix sockets
		return &unixConn{UnixConn: local, closed: d.Opened()}, nil
	}
	if err := d.Socket.Connected(conn); err != nil {
		d.Failed()
		return nil, errors.Join(err, conn.Close())
	}
	if resetOnClose {
		_ = conn.(*net.TCPConn).SetLinger(0) // if SetLinger fails, Close works without a reset
	}
	d.observe(&d.times.Connect, time.Since(begin))
	d.usedCongestion(sockopt.CongestionOf(conn.(*net.TCPConn)))
	counted := &countedConn{TCPConn: conn.(*net.TCPConn), closed: d.Opened(), traffic: &d.traffic}
	d.traffic.add(counted)
	if d.Records != nil {
		return &recordConn{Conn: counted, records: d.Records}, nil
	}
	return counted, nil
}

// dialerTo chooses the next connection's source address. resetOnClose is true if several addresses
// are needed but only one exists.
func (d *Dialer) dialerTo(address string) (dialer net.Dialer, resetOnClose bool) {
	dialer.Control = d.Socket.Control()
	if d.Sources <= 1 {
		return dialer, false
	}
	ip, found := sourceAddress(d.next.Add(1)%uint32(d.Sources), address)
	if !found || !manyLoopbackAddresses {
		return dialer, true
	}
	control := dialer.Control
	dialer.LocalAddr = &net.TCPAddr{IP: ip}
	dialer.Control = func(network, address string, socket syscall.RawConn) error {
		if err := bindWithoutPort(network, address, socket); err != nil || control == nil {
			return err
		}
		return control(network, address, socket)
	}
	return dialer, false
}

// HandshakeTLS does the TLS handshake on a connection from DialContext. Wrappers of the connection
// must have a method NetConn. If the handshake fails, it closes the connection.
func (d *Dialer) HandshakeTLS(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(raw, config)
	begin := time.Now()
	if err := conn.HandshakeContext(ctx); err != nil {
		d.HandshakeFailed()
		_ = raw.Close()
		return nil, failure.MarkHandshakeTimeout(err)
	}
	took := time.Since(begin)
	d.traffic.countHandshake(raw)
	d.Handshake(Handshake{Took: took, State: conn.ConnectionState()})
	return conn, nil
}

// Opened counts a connection that another package opened. The caller calls closed when the
// connection closes; later calls of closed do nothing.
func (d *Dialer) Opened() (closed func()) {
	d.count(func(c *Counts) { c.Opened++; c.Open++ })
	return sync.OnceFunc(func() { d.count(func(c *Counts) { c.Open-- }) })
}

// Failed counts a failed attempt to connect.
func (d *Dialer) Failed() { d.count(func(c *Counts) { c.Failed++ }) }

// HandshakeFailed counts a connection whose handshake failed.
func (d *Dialer) HandshakeFailed() { d.count(func(c *Counts) { c.HandshakeFail++ }) }

// SentAgain counts a request in refused early data, which is sent again.
func (d *Dialer) SentAgain() { d.count(func(c *Counts) { c.SentAgain++ }) }

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
	d.observe(&d.times.Handshake, h.Took)
}

// FirstByte records the time to first byte of a call that opened its own connection.
func (d *Dialer) FirstByte(took time.Duration) {
	d.observe(&d.times.FirstByte, took)
}

func (d *Dialer) observe(in **latency.Recorder, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if *in == nil {
		*in = latency.NewRecorder()
	}
	(*in).Record(int64(took))
}

// Counts returns the counts so far.
func (d *Dialer) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// Traffic returns the traffic of all TCP connections so far. Reading the traffic takes about 2 µs
// per open connection.
func (d *Dialer) Traffic() Traffic {
	d.traffic.mu.Lock()
	defer d.traffic.mu.Unlock()
	sum := d.traffic.closed
	for conn := range d.traffic.open {
		if one, known := tcpTraffic(conn.TCPConn); known {
			sum = sum.Plus(one)
		}
	}
	return sum
}

// Frames returns the frame counter of an HTTP/3 client, or nil if frames are not counted.
func (d *Dialer) Frames() *Frames {
	if d.Records == nil {
		return nil
	}
	return &d.Records.frames
}

// TakeTimes returns the times recorded since its last call.
func (d *Dialer) TakeTimes() Times {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.times
	d.times = Times{}
	return t
}

type unixConn struct {
	*net.UnixConn
	closed func()
}

func (c *unixConn) Close() error {
	c.closed()
	return c.UnixConn.Close()
}

// Settings lists the socket settings for the address that differ from the kernel's default.
func (d *Dialer) Settings(address string) []tuning.Setting {
	if d == nil || d.Sources <= 1 {
		return nil
	}
	if _, resetOnClose := d.dialerTo(address); resetOnClose {
		return []tuning.Setting{{Side: tuning.Client, Name: "SO_LINGER", Value: "0", Default: "unset", Why: "closed connections in TIME_WAIT would use up the ports"}}
	}
	return []tuning.Setting{{Side: tuning.Client, Name: "net.Dialer.LocalAddr", Value: strconv.Itoa(d.Sources) + " addresses of 127.0.0.0/8, in turns", Default: "the kernel's choice", Why: "a single address has too few ports for all connections"}}
}

// Sources computes how many source addresses the connections need. With too few addresses, the
// connections run out of ports. The zero value needs one address.
type Sources struct {
	// Connections is the number of connections that occupy a port: open, or in TIME_WAIT.
	Connections int
	// Ports is the number of ports of one address.
	Ports int
}

// Count returns the number of addresses. It leaves half of each address's ports free: the kernel
// searches for a free port (inet_hash_connect), which takes longer if few are free.
func (s Sources) Count() int {
	share := max(1, s.Ports/2)
	return max(1, (s.Connections+share-1)/share)
}

// sourceAddress returns source address number n. It returns false unless address is on loopback,
// where all of 127.0.0.0/8 belongs to this machine (RFC 1122, section 3.2.1.3).
func sourceAddress(n uint32, address string) (net.IP, bool) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4() || !to.Addr().IsLoopback() {
		return nil, false
	}
	var ip [4]byte
	// No host has the first or the last address of the block.
	const hosts = 1<<24 - 2
	binary.BigEndian.PutUint32(ip[:], 127<<24+1+n%hosts)
	return net.IP(ip[:]), true
}

// QUICCongestion is quic-go's congestion control, NewReno (RFC 9002, section 7). quic-go offers no
// other algorithm and does not report the name. A test checks that quic-go still uses NewReno.
const QUICCongestion = "reno"

// UsedProtocol records a protocol that a peer used in an answer.
func (d *Dialer) UsedProtocol(protocol string) {
	d.mu.Lock()
	addToList(&d.negotiated.Protocol, protocol)
	d.mu.Unlock()
	if protocol == "h3" {
		d.usedCongestion(QUICCongestion)
	}
}

func (d *Dialer) usedCongestion(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addToList(&d.negotiated.ClientCongestion, name)
}

// addToList adds a word to a comma-separated list, unless the list already has it.
func addToList(words *string, word string) {
	switch {
	case *words == "":
		*words = word
	case *words != word && word != "" && !slices.Contains(strings.Split(*words, ","), word):
		*words += "," + word
	}
}

// countSession counts a TLS session by its version, cipher suite and key exchange. The client's
// offer limits how many combinations can occur.
func (d *Dialer) countSession(state tls.ConnectionState) {
	kind := record.Session{
		Version: tls.VersionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite),
		ALPN: state.NegotiatedProtocol, Resumed: state.DidResume,
	}
	if state.CurveID != 0 {
		kind.Group = state.CurveID.String()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.negotiated.Sessions, func(known record.Session) bool {
		known.Connections = 0
		return known == kind
	})
	if i < 0 {
		i = len(d.negotiated.Sessions)
		d.negotiated.Sessions = append(d.negotiated.Sessions, kind)
	}
	d.negotiated.Sessions[i].Connections++
}

// Negotiated returns the protocols and parameters that the connections have negotiated so far.
func (d *Dialer) Negotiated() record.Negotiated {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.negotiated
	n.Sessions = slices.Clone(n.Sessions)
	return n
}
