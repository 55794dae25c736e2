package stacktest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// largestDatagram is what UDP can carry (RFC 768).
const largestDatagram = 1<<16 - 1

// listenDatagrams opens a UDP socket with room for the bursts that QUIC sends.
func listenDatagrams(t testing.TB) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("no UDP socket: %v", err)
	}
	_ = conn.SetReadBuffer(4 << 20) // less room costs time, not the check
	return conn
}

// datagramProxy is a proxy of UDP.
type datagramProxy struct {
	front   *net.UDPConn
	target  *net.UDPAddr
	workers sync.WaitGroup
	packets atomic.Int64 // from clients

	mu     sync.Mutex
	closed bool
	silent bool
	cut    bool                            // nothing passes either way
	budget int                             // bytes that may still pass before the cut; negative: no limit
	report func()                          // is told of the cut
	backs  map[netip.AddrPort]*net.UDPConn // by client: what the server sees it as
}

func newDatagramProxy(t testing.TB, target string) *datagramProxy {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		t.Fatalf("the proxy has no target: %v", err)
	}
	p := &datagramProxy{front: listenDatagrams(t), target: to, budget: -1, report: func() {}, backs: map[netip.AddrPort]*net.UDPConn{}}
	p.workers.Go(p.forward)
	t.Cleanup(p.close)
	return p
}

func (p *datagramProxy) address() string { return p.front.LocalAddr().String() }
func (p *datagramProxy) asked() int64    { return p.packets.Load() }

func (p *datagramProxy) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

func (p *datagramProxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// whenCut has the next cut reported.
func (p *datagramProxy) whenCut(report func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = report
}

func (p *datagramProxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.budget = false, -1
}

func (p *datagramProxy) close() {
	p.mu.Lock()
	p.closed = true
	for _, back := range p.backs {
		_ = back.Close()
	}
	p.mu.Unlock()
	_ = p.front.Close()
	p.workers.Wait()
}

// forward passes what clients send.
func (p *datagramProxy) forward() {
	buffer := make([]byte, largestDatagram)
	for {
		n, client, err := p.front.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		p.packets.Add(1)
		if back := p.backOf(client); back != nil {
			_, _ = back.Write(buffer[:n]) // datagrams may be lost
		}
	}
}

// backOf is the socket of a client, where one may send.
func (p *datagramProxy) backOf(client netip.AddrPort) *net.UDPConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		return nil
	}
	back, has := p.backs[client]
	if has {
		return back
	}
	back, err := net.DialUDP("udp", nil, p.target)
	if err != nil {
		return nil
	}
	_ = back.SetReadBuffer(4 << 20) // less room costs time, not the check
	p.backs[client] = back
	p.workers.Go(func() { p.answer(back, client) })
	return back
}

// answer passes what the server sends to a client.
func (p *datagramProxy) answer(back *net.UDPConn, client netip.AddrPort) {
	buffer := make([]byte, largestDatagram)
	for {
		n, err := back.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && p.permits(n) { // else the server is away, for now
			_, _ = p.front.WriteToUDPAddrPort(buffer[:n], client)
		}
	}
}

// permits tells whether n more bytes may pass.
func (p *datagramProxy) permits(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cut || p.silent:
		return false
	case p.budget < 0:
		return true
	case n < p.budget:
		p.budget -= n
		return true
	default:
		p.cut = true
		p.report()
		return false
	}
}

// rawDatagramPeer is rawPeer on UDP, where there is nothing to hang up.
func rawDatagramPeer(t testing.TB, answer []byte) *peer {
	t.Helper()
	conn := listenDatagrams(t)
	p := &peer{address: conn.LocalAddr().String()}
	var worker sync.WaitGroup
	worker.Go(func() {
		buffer := make([]byte, largestDatagram)
		for {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if answer != nil {
				_, _ = conn.WriteToUDPAddrPort(answer, from)
			}
			p.asked.Add(1)
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		worker.Wait()
	})
	return p
}
