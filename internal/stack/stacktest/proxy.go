package stacktest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and its server and misbehaves on command. The
// commands touch only what flows back to the client.
type proxy interface {
	address() string
	// asked is how often something came from a client.
	asked() int64
	// setSilent keeps answers from the client, or lets them go on. A stream
	// holds them back, datagrams are lost.
	setSilent(bool)
	// cutAfter ends all connections at the n-th byte from now, whichever
	// brings it: where a client has several, the others talk too. Nothing but
	// its peer can end a connection made of datagrams: there nothing passes
	// any more, either way.
	cutAfter(n int)
	// heal lets new connections through after a cut.
	heal()
}

// newProxy makes the subject's kind of proxy. Its clean-up closes it.
func newProxy(t testing.TB, s Subject, target string) proxy {
	t.Helper()
	if s.Datagrams {
		return newDatagramProxy(t, target)
	}
	return newStreamProxy(t, target)
}

// streamProxy is a proxy of TCP.
type streamProxy struct {
	listener net.Listener
	target   string
	workers  sync.WaitGroup
	requests atomic.Int64 // reads of something that a client sent

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	silent  bool
	budget  int // bytes that may still pass before the connections are cut; negative: no limit
	conns   map[net.Conn]bool
}

func newStreamProxy(t testing.TB, target string) *streamProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("the proxy cannot listen: %v", err)
	}
	p := &streamProxy{listener: listener, target: target, budget: -1, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.workers.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *streamProxy) address() string { return p.listener.Addr().String() }
func (p *streamProxy) asked() int64    { return p.requests.Load() }

func (p *streamProxy) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
	p.changed.Broadcast()
}

func (p *streamProxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// heal has nothing to do: a new connection knows nothing of the cut.
func (p *streamProxy) heal() {}

func (p *streamProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.closeConns()
	p.changed.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.workers.Wait()
}

// cut closes all connections where the budget is used up, once.
func (p *streamProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget == 0 {
		p.budget = -1
		p.closeConns()
	}
}

// closeConns needs the lock.
func (p *streamProxy) closeConns() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *streamProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.adopt(client, server) {
			return
		}
		p.workers.Go(func() { p.pass(client, server, p.count) })
		p.workers.Go(func() { p.pass(server, client, p.permit) })
	}
}

// adopt makes close responsible for the two connections.
func (p *streamProxy) adopt(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close()
		_ = server.Close()
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

// pass copies until one side ends or permit lets fewer bytes through than
// there are. Then it closes both sides.
func (p *streamProxy) pass(from, to net.Conn, permit func(int) int) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		allowed := permit(n)
		_, failed := to.Write(buffer[:allowed])
		if allowed < n {
			p.cut()
		}
		if failed != nil || err != nil || allowed < n {
			return
		}
	}
}

// count lets n bytes of a client through.
func (p *streamProxy) count(n int) int {
	if n > 0 {
		p.requests.Add(1)
	}
	return n
}

// permit waits while the proxy is silent, and takes n bytes from the budget.
func (p *streamProxy) permit(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.silent && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.budget < 0 || n == 0:
		return n
	case n < p.budget:
		p.budget -= n
		return n
	default:
		allowed := min(p.budget, n-1)
		p.budget = 0 // until cut, nothing passes any more
		return allowed
	}
}
