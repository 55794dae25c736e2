package fastgrpc

import (
	"net"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// connCounters are what one connection has done. Those of calls are guarded by its
// lock; the others are written by its own two goroutines, once a system call.
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

// Counters are what a connection, or all connections of a server or client, have
// done since they began.
type Counters struct {
	CallsStarted, CallsSucceeded, CallsFailed uint64
	BytesIn, BytesOut                         uint64
	// Reads and Writes are system calls: calls divided by writes tell how well
	// frames are batched.
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

// ConnInfo describes a connection that is open.
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

// Conns describes the server's open connections, in no order.
func (s *Server) Conns() []ConnInfo {
	s.mu.Lock()
	conns := make([]*serverConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	infos := make([]ConnInfo, len(conns))
	for i, c := range conns {
		infos[i] = c.info(c.peer.LocalAddr, c.peer.Addr)
	}
	return infos
}

// Counters are the sums over all connections, open and gone.
func (s *Server) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.gone
	for c := range s.conns {
		total.add(c.snapshot())
	}
	return total
}

// Conns describes the client's open connections, in no order.
func (c *Client) Conns() []ConnInfo {
	c.pool.mu.Lock()
	conns := make([]*clientConn, 0, len(c.pool.conns))
	for cc := range c.pool.conns {
		conns = append(conns, cc)
	}
	c.pool.mu.Unlock()
	infos := make([]ConnInfo, len(conns))
	for i, cc := range conns {
		infos[i] = cc.info(cc.peer.LocalAddr, cc.peer.Addr)
	}
	return infos
}

// Counters are the sums over all connections, open and gone.
func (c *Client) Counters() Counters {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	total := c.pool.gone
	for cc := range c.pool.conns {
		total.add(cc.snapshot())
	}
	return total
}
