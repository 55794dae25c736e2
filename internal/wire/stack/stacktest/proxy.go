package stacktest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// listen opens a loopback port of the subject's kind.
func listen(t testing.TB, s Subject) net.Listener {
	t.Helper()
	if s.Datagrams {
		return listenUDP(t)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, "listen on TCP", err)
	return listener
}

// acceptAll calls handle in a goroutine for each connection. The clean-up ends and awaits them.
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
				continue // a failed handshake
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

// proxy stands between a client and its server, and misbehaves to the client on command.
type proxy struct {
	subject  Subject
	address  string
	target   string
	requests atomic.Int64 // reads that returned a client's data

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	silent  bool
	budget  int    // bytes that may still pass before the cut; negative: no limit
	cut     bool   // on UDP: nothing passes, either way
	onCut   func() // called by a cut, unless nil
	conns   map[net.Conn]bool
}

// newProxy makes a proxy of the subject's kind. Its clean-up closes it.
func newProxy(t testing.TB, s Subject, target string) *proxy {
	t.Helper()
	listener := listen(t, s)
	p := &proxy{subject: s, address: listener.Addr().String(), target: target, budget: -1, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	acceptAll(t, listener, p.serve)
	t.Cleanup(func() { p.do(func() { p.closed = true; p.closeConns() }) }) // before the clean-up of acceptAll
	return p
}

func (p *proxy) do(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// setSilent stops answers to the client, or lets them go on. On UDP they are lost.
func (p *proxy) setSilent(silent bool) { p.do(func() { p.silent = silent }) }

// cutAfter ends all connections at the n-th byte from now, on any of them. On UDP they cannot be
// ended from outside, so nothing passes any more, in either direction.
func (p *proxy) cutAfter(n int) { p.do(func() { p.budget = n }) }

func (p *proxy) heal() { p.do(func() { p.cut, p.budget = false, -1 }) }

// endCut closes all connections when the budget is used up, once.
func (p *proxy) endCut() {
	if p.budget == 0 {
		p.budget = -1
		p.closeConns()
	}
}

// closeConns closes all connections. The lock is held.
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
	p.do(func() {
		p.conns[client], p.conns[server] = true, true
		if p.closed {
			p.closeConns()
		}
	})
	var answers sync.WaitGroup
	defer answers.Wait()
	answers.Go(func() { p.pass(server, client, p.permit) })
	p.pass(client, server, p.count)
}

// pass copies until one side ends, or permit lets fewer bytes through. Then it closes both sides.
// On UDP it continues, since a server may come back.
func (p *proxy) pass(from, to net.Conn, permit func(int) int) {
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
			p.do(p.endCut)
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

// permit takes n bytes from the budget, and returns how many may pass. On TCP, silence delays it.
func (p *proxy) permit(n int) int {
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
	largestDatagram = 1<<16 - 1 // UDP's largest (RFC 768)
	socketBuffer    = 4 << 20   // for the bursts that QUIC sends; less would cost time, not the check
	sessionQueue    = 1024      // datagrams; further ones are dropped, as UDP may
)

// udpListener is a UDP socket as a net.Listener, with one connection per sender's address.
type udpListener struct {
	*net.UDPConn
	accepted chan net.Conn
	sessions map[netip.AddrPort]*udpSession
}

type udpSession struct {
	*net.UDPConn // shared
	peer         netip.AddrPort
	received     chan []byte // closed with the listener
}

func listenUDP(t testing.TB) *udpListener {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	noError(t, "listen on UDP", err)
	_ = conn.SetReadBuffer(socketBuffer)
	l := &udpListener{UDPConn: conn, accepted: make(chan net.Conn), sessions: map[netip.AddrPort]*udpSession{}}
	go l.receive() // ends with Close
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

// Close does nothing: only its peer can end a connection made of datagrams.
func (s *udpSession) Close() error { return nil }
