package fastgrpc

import (
	"maps"
	"net"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// connCounters count one connection's calls and traffic. Its lock guards the counters
// of calls. Its reader and writer update the others, once per system call.
type connCounters struct {
	reads, writes, bytesIn, bytesOut          atomic.Uint64
	callsStarted, callsSucceeded, callsFailed uint64
}

func (c *connCounters) ended(code codes.Code) {
	if code == codes.OK {
		c.callsSucceeded++
	} else {
		c.callsFailed++
	}
}

// Counters count the calls and traffic of a connection, or of all connections of a
// server or client, since it began.
type Counters struct {
	CallsStarted, CallsSucceeded, CallsFailed uint64
	BytesIn, BytesOut                         uint64
	// Reads and Writes count system calls: calls per write show how well frames are
	// batched.
	Reads, Writes uint64
}

func (t *transport) snapshot() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counters
	return Counters{
		CallsStarted: c.callsStarted, CallsSucceeded: c.callsSucceeded, CallsFailed: c.callsFailed,
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
		Reads: c.reads.Load(), Writes: c.writes.Load(),
	}
}

func (c *Counters) add(o Counters) {
	c.CallsStarted += o.CallsStarted
	c.CallsSucceeded += o.CallsSucceeded
	c.CallsFailed += o.CallsFailed
	c.BytesIn += o.BytesIn
	c.BytesOut += o.BytesOut
	c.Reads += o.Reads
	c.Writes += o.Writes
}

// ConnInfo describes an open connection.
type ConnInfo struct {
	Local, Remote net.Addr
	OpenCalls     int
	Counters      Counters
}

func (t *transport) info(local, remote net.Addr) ConnInfo {
	t.mu.Lock()
	open := t.h2.OpenStreams()
	t.mu.Unlock()
	return ConnInfo{Local: local, Remote: remote, OpenCalls: open, Counters: t.snapshot()}
}

// Conns returns the server's open connections, in no particular order.
func (s *Server) Conns() []ConnInfo {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	infos := make([]ConnInfo, len(conns))
	for i, c := range conns {
		infos[i] = c.info(c.peer.LocalAddr, c.peer.Addr)
	}
	return infos
}

// Counters returns the sums over all connections, open and closed.
func (s *Server) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.gone
	for c := range s.conns {
		total.add(c.snapshot())
	}
	return total
}

// Conns returns the client's open connections, in no particular order.
func (c *Client) Conns() []ConnInfo {
	c.pool.mu.Lock()
	conns := slices.Collect(maps.Keys(c.pool.conns))
	c.pool.mu.Unlock()
	infos := make([]ConnInfo, len(conns))
	for i, cc := range conns {
		infos[i] = cc.info(cc.peer.LocalAddr, cc.peer.Addr)
	}
	return infos
}

// Counters returns the sums over all connections, open and closed.
func (c *Client) Counters() Counters {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	total := c.pool.gone
	for cc := range c.pool.conns {
		total.add(cc.snapshot())
	}
	return total
}
