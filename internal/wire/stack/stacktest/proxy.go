package stacktest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// listen opens a loopback port for the subject's transport, TCP or UDP.
func listen(t testing.TB, s Subject) net.Listener {
	t.Helper()
	if s.Datagrams {
		return listenUDP(t)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	requireNoError(t, "listen on TCP", err)
	return listener
}

// acceptAll calls handle in a goroutine for each connection. A clean-up closes the connections and
// waits for the goroutines.
func acceptAll(t testing.TB, listener net.Listener, handle func(net.Conn)) {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		conns   []net.Conn
		closed  bool
	)
	workers.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // a handshake failed
			}
			mu.Lock()
			conns = append(conns, conn)
			if closed {
				_ = conn.Close()
			}
			mu.Unlock()
			workers.Go(func() { handle(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		closed = true
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		workers.Wait()
	})
}

// proxy connects a client and its server. Checks can make it misbehave to the client.
type proxy struct {
	subject  Subject
	address  string
	target   string
	requests atomic.Int64 // number of reads that returned data from a client

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	silent  bool
	budget  int    // number of bytes that may still pass before the cut; negative means no limit
	cut     bool   // over UDP, nothing passes any more in either direction
	onCut   func() // called at the cut, unless it is nil
	conns   map[net.Conn]bool
}

// newProxy makes a proxy for the subject's transport. A clean-up closes it.
func newProxy(t testing.TB, s Subject, target string) *proxy {
	t.Helper()
	listener := listen(t, s)
	p := &proxy{subject: s, address: listener.Addr().String(), target: target, budget: -1, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	acceptAll(t, listener, p.serve)
	t.Cleanup(func() { p.withLock(func() { p.closed = true; p.closeConns() }) }) // runs before the clean-up of acceptAll
	return p
}

func (p *proxy) withLock(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// setSilent stops or restarts the answers to the client. Over UDP, the stopped answers are lost.
func (p *proxy) setSilent(silent bool) { p.withLock(func() { p.silent = silent }) }

// cutAfter closes all connections when n more bytes have passed. Over UDP a proxy cannot close
// connections, so nothing passes any more in either direction.
func (p *proxy) cutAfter(n int) { p.withLock(func() { p.budget = n }) }

func (p *proxy) heal() { p.withLock(func() { p.cut, p.budget = false, -1 }) }

// endCut closes all connections, but only once, when no more bytes may pass.
func (p *proxy) endCut() {
	if p.budget == 0 {
		p.budget = -1
		p.closeConns()
	}
}

// closeConns closes all connections. The caller must hold the lock.
func (p *proxy) closeConns() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial(p.subject.network(), p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if udp, is := server.(*net.UDPConn); is {
		_ = udp.SetReadBuffer(socketBuffer)
	}
	p.withLock(func() {
		p.conns[client], p.conns[server] = true, true
		if p.closed {
			p.closeConns()
		}
	})
	var answers sync.WaitGroup
	defer answers.Wait()
	answers.Go(func() { p.forward(server, client, p.takeBudget) })
	p.forward(client, server, p.count)
}

// forward copies data until one side ends or permit forbids some of the bytes. Then it closes both
// sides. Over UDP it continues when one side ends, because a server may come back.
func (p *proxy) forward(from, to net.Conn, permit func(int) int) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buffer := make([]byte, largestDatagram)
	for {
		n, err := from.Read(buffer)
		if p.subject.Datagrams {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if permit(n) == n && err == nil {
				_, _ = to.Write(buffer[:n])
			}
			continue
		}
		allowed := permit(n)
		_, failed := to.Write(buffer[:allowed])
		if allowed < n {
			p.withLock(p.endCut)
		}
		if failed != nil || err != nil || allowed < n {
			return
		}
	}
}

func (p *proxy) count(n int) int {
	if n > 0 {
		p.requests.Add(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return 0
	}
	return n
}

// takeBudget subtracts up to n bytes from the budget, and returns the number of subtracted bytes.
// Over TCP it waits while the proxy is silent.
func (p *proxy) takeBudget(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.silent && !p.closed && !p.subject.Datagrams {
		p.changed.Wait()
	}
	switch {
	case p.cut || p.silent && !p.closed:
		return 0
	case p.budget < 0 || n == 0:
		return n
	case n < p.budget:
		p.budget -= n
		return n
	}
	allowed := min(p.budget, n-1)
	p.budget = 0 // nothing passes until the connections are closed
	if p.subject.Datagrams {
		p.cut, p.budget = true, -1
	}
	if p.onCut != nil {
		p.onCut()
	}
	return allowed
}

const (
	largestDatagram = 1<<16 - 1 // the largest UDP datagram (RFC 768)
	socketBuffer    = 4 << 20   // room for QUIC's bursts; with less the check would be slower
	sessionQueue    = 1024      // number of waiting datagrams; UDP drops further ones
)

// udpListener makes a net.Listener from a UDP socket. Each sender's address is one connection.
type udpListener struct {
	*net.UDPConn
	accepted chan net.Conn
	sessions map[netip.AddrPort]*udpSession
}

type udpSession struct {
	*net.UDPConn // all sessions share the socket
	peer         netip.AddrPort
	received     chan []byte // closed together with the listener
}

func listenUDP(t testing.TB) *udpListener {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	requireNoError(t, "listen on UDP", err)
	_ = conn.SetReadBuffer(socketBuffer)
	l := &udpListener{UDPConn: conn, accepted: make(chan net.Conn), sessions: map[netip.AddrPort]*udpSession{}}
	go l.receive() // ends when Close is called
	return l
}

func (l *udpListener) Addr() net.Addr { return l.LocalAddr() }

func (l *udpListener) Accept() (net.Conn, error) {
	conn, ok := <-l.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *udpListener) receive() {
	defer func() {
		close(l.accepted)
		for _, session := range l.sessions {
			close(session.received)
		}
	}()
	buffer := make([]byte, largestDatagram)
	for {
		n, from, err := l.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		session := l.sessions[from]
		if session == nil {
			session = &udpSession{UDPConn: l.UDPConn, peer: from, received: make(chan []byte, sessionQueue)}
			l.sessions[from] = session
			l.accepted <- session
		}
		select {
		case session.received <- append([]byte(nil), buffer[:n]...):
		default:
		}
	}
}

func (s *udpSession) Read(p []byte) (int, error) {
	datagram, ok := <-s.received
	if !ok {
		return 0, net.ErrClosed
	}
	return copy(p, datagram), nil
}

func (s *udpSession) Write(p []byte) (int, error) { return s.WriteToUDPAddrPort(p, s.peer) }

// Close does nothing, because only the peer can end a session.
func (s *udpSession) Close() error { return nil }
