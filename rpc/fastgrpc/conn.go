package fastgrpc

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
	"wirelab.dev/rpc/fastgrpc/internal/message"
	"wirelab.dev/rpc/h2"
)

// A conn is the part of a connection that clients and servers share.
type conn struct {
	batchio.Conn
	h2       *h2.Conn
	role     connRole
	isClient bool
	peer     *peer.Peer
	stats    stats.Handler
	ctx      context.Context // ends with the connection
	end      context.CancelFunc
	clock    lifetime.Clock
	timer    *time.Timer // fires at the clock's next check
}

func (c *conn) init(role connRole, nc net.Conn, auth credentials.AuthInfo, l *limits) {
	c.peer = &peer.Peer{Addr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), AuthInfo: auth}
	c.stats, c.isClient = l.stats, l.h2.Client
	c.ctx, c.end = context.WithCancel(context.Background())
	if c.stats != nil {
		c.ctx = c.stats.TagConn(c.ctx, &stats.ConnTagInfo{RemoteAddr: c.peer.Addr, LocalAddr: c.peer.LocalAddr})
		c.stats.HandleConn(c.ctx, &stats.ConnBegin{Client: c.isClient})
	}
	c.role = role
	c.Init(nc)
	cfg := l.config()
	cfg.Kept, cfg.MinReferenceLen = c.Kept(), c.MinReference()
	cfg.Kept.Freed = c.contentFreed
	c.h2 = h2.NewConn(cfg, role)
	c.Attach(c.h2, role)
}

// source returns the connection for the inboxes of its calls.
func (c *conn) source() message.Source { return message.Source{Conn: &c.Conn, H2: c.h2} }

// A connRole is the part of a connection in which clients and servers differ.
type connRole interface {
	batchio.Role
	h2.Handler
	// checkTimes does the keepalive actions that are due. The lock is held.
	checkTimes()
}

// Start starts the connection's goroutines, and adds them to running.
func (c *conn) Start(running *sync.WaitGroup) {
	c.Mu.Lock()
	now := time.Since(batchio.Epoch)
	c.clock.Began, c.clock.IdleSince = now, now
	c.LastRead.Store(int64(now))
	c.timer = time.AfterFunc(lifetime.Forever, func() {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		c.checkKeepalive()
	})
	c.checkKeepalive()
	c.Mu.Unlock()
	c.Conn.Start(running)
}

var (
	keepalivePing = [8]byte{'k', 'e', 'e', 'p'}
	drainPing     = [8]byte{'d', 'r', 'a', 'i', 'n'}
)

var (
	errPingTimeout = errors.New("fastgrpc: keepalive ping not answered before its timeout")
	errConnAge     = errors.New("fastgrpc: connection reached MaxConnectionAge and its grace period")
	errNoPreface   = errors.New("fastgrpc: peer sent no HTTP/2 SETTINGS before the timeout")
)

// checkKeepalive runs the due keepalive actions and sets the timer for the next one.
func (c *conn) checkKeepalive() {
	if c.Err() != nil {
		return
	}
	c.clock.Begin(time.Since(batchio.Epoch))
	if c.role.checkTimes(); c.Err() != nil {
		return
	}
	c.Flush()
	c.timer.Reset(max(c.clock.Next, time.Millisecond))
}

// pingIfSilent pings a peer that has been silent, and closes the connection if the peer
// does not answer.
func (c *conn) pingIfSilent() {
	switch c.clock.CheckPing(time.Duration(c.LastRead.Load())) {
	case rpccall.PingLost:
		c.CloseLocked(errPingTimeout)
	case rpccall.PingNow:
		c.h2.Ping(keepalivePing)
	}
}

// contentFreed lets the peer send messages that waited for memory.
func (c *conn) contentFreed() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Err() == nil {
		c.h2.GrantContent()
		c.Flush()
	}
}

// ended tells calls and the stats handler that the connection is closed.
func (c *conn) ended() {
	c.end()
	if c.stats != nil {
		c.stats.HandleConn(c.ctx, &stats.ConnEnd{Client: c.isClient})
	}
}

// Counters count the calls (CallsStarted, CallsSucceeded, CallsFailed), the traffic (BytesIn,
// BytesOut) and the system calls (Reads, Writes) of a connection, or of all connections of a
// server or client. Calls per write show how well frames are batched.
type Counters = batchio.Counters

// ConnInfo describes an open connection.
type ConnInfo struct {
	Local, Remote net.Addr
	OpenCalls     int
	Counters      Counters
}

func (c *conn) info() ConnInfo {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return ConnInfo{Local: c.peer.LocalAddr, Remote: c.peer.Addr, OpenCalls: c.h2.OpenStreams(), Counters: c.Counters}
}

// connSet holds the connections of a server or a client, and counts their calls and
// traffic.
type connSet[C connSetMember] struct {
	set    rpccall.Conns[C]
	ending []C      // closed connections with running handlers: they count, too
	gone   Counters // sums over the other closed connections
}

type connSetMember interface {
	rpccall.Conn
	info() ConnInfo
}

func (s *connSet[C]) remove(c C) {
	s.set.Mu.Lock()
	defer s.set.Mu.Unlock()
	delete(s.set.Open, c)
	s.ending = append(s.ending, c)
	s.forget()
}

// forget drops closed connections without calls, and keeps their counters. The lock is held.
func (s *connSet[C]) forget() {
	s.ending = slices.DeleteFunc(s.ending, func(c C) bool {
		last := c.info().Counters
		if last.CallsStarted > last.CallsSucceeded+last.CallsFailed {
			return false
		}
		s.gone = batchio.Sum(s.gone, last)
		return true
	})
}

// Conns returns the open connections, in no particular order.
func (s *connSet[C]) Conns() []ConnInfo {
	s.set.Mu.Lock()
	defer s.set.Mu.Unlock()
	var infos []ConnInfo
	for c := range s.set.Open {
		infos = append(infos, c.info())
	}
	return infos
}

// Counters returns the sums over all connections, open and closed.
func (s *connSet[C]) Counters() Counters {
	s.set.Mu.Lock()
	defer s.set.Mu.Unlock()
	s.forget()
	total := s.gone
	for c := range s.set.Open {
		total = batchio.Sum(total, c.info().Counters)
	}
	for _, c := range s.ending {
		total = batchio.Sum(total, c.info().Counters)
	}
	return total
}

// Transparent is implemented by connections of a custom dialer or listener that wrap
// a socket without changing its bytes, for instance to count them. Other wrappers are
// treated like TLS, which costs a little more.
//
// Socket returns the wrapped socket, which implements syscall.Conn. All writes, and all
// reads after the first, go to that socket and bypass the wrapper. Deadlines and Close
// go to the wrapper.
type Transparent = batchio.Transparent

// limits holds the options that clients and servers share.
type limits struct {
	maxReceive, maxSend int
	h2                  h2.Config
	codec               message.Codec
	vt                  bool // for the proto codec: use vtprotobuf's methods
	alias               bool
	stats               stats.Handler
}

// memoryLimit bounds each part of the memory that a connection's peer can make it keep, with
// the default windows. See h2/memory.go.
const memoryLimit = 64 << 20

// config returns the h2.Config. Larger windows need more memory.
func (l *limits) config() h2.Config {
	cfg := l.h2
	windows := 4 * int64(max(cfg.StreamWindow, cfg.ConnWindow))
	cfg.MemoryLimit = int(max(memoryLimit, min(windows, math.MaxInt)))
	return cfg
}

// defaultLimits returns the defaults of both ends. The message limits are grpc-go's.
func defaultLimits() limits {
	return limits{
		maxReceive: 4 << 20, maxSend: math.MaxInt32,
		h2: h2.Config{
			StreamWindow: 2 << 20, ConnWindow: 8 << 20,
			MaxFrameSize: 128 << 10, MaxHeaderList: 16 << 20, MaxStreams: math.MaxInt32,
			OutputLimit: 256 << 10,
			ControlRate: 1000, // allows frames without harm, even if each begins and ends a call
		},
	}
}

// codecFor returns the forced codec, or the one for the content-subtype, or nil.
func (l *limits) codecFor(subtype string) message.Codec {
	if l.codec != nil {
		return l.codec
	}
	return message.CodecFor(subtype, l.vt)
}

func (l *limits) setWindows(stream, connection int) {
	const least, most = 65535, 1<<31 - 1
	l.h2.StreamWindow = min(max(stream, least), most)
	l.h2.ConnWindow = min(max(connection, least), most)
}
