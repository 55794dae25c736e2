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
	stats    []stats.Handler
	ctx      context.Context // ends when the connection closes
	end      context.CancelFunc
	clock    rpccall.Clock
	timer    *time.Timer // calls checkTimeouts when a time limit may have passed
}

func (c *conn) init(role connRole, nc net.Conn, auth credentials.AuthInfo, l *limits) {
	c.peer = &peer.Peer{Addr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), AuthInfo: auth}
	c.stats, c.isClient = l.stats, l.h2.Client
	c.ctx, c.end = context.WithCancel(context.Background())
	for _, h := range c.stats {
		c.ctx = h.TagConn(c.ctx, &stats.ConnTagInfo{RemoteAddr: c.peer.Addr, LocalAddr: c.peer.LocalAddr}) //nolint:fatcontext // each handler adds its values
	}
	c.reportConn(&stats.ConnBegin{Client: c.isClient})
	c.role = role
	c.Init(nc)
	cfg := l.h2Config()
	cfg.Kept, cfg.MinReferenceLen = c.KeptMemory(), c.MinReference()
	cfg.Kept.Freed = c.onContentFreed
	c.h2 = h2.NewConn(cfg, role)
	c.Attach(c.h2, role)
}

// messageSource returns the Source from which the calls' inboxes receive.
func (c *conn) messageSource() message.Source { return message.Source{Conn: &c.Conn, H2: c.h2} }

// A connRole holds the methods of a connection that differ between clients and servers.
type connRole interface {
	batchio.Role
	h2.Handler
	// checkTimeouts pings, drains or closes the connection if that is due. The lock is held.
	checkTimeouts()
}

// Start starts the connection's goroutines and counts them in running.
func (c *conn) Start(running *sync.WaitGroup) {
	c.Mu.Lock()
	c.timer = c.clock.Start(&c.Conn, c.role.checkTimeouts)
	c.Mu.Unlock()
	c.Conn.Start(running)
}

var (
	keepalivePing = [8]byte{'k', 'e', 'e', 'p'}
	drainPing     = [8]byte{'d', 'r', 'a', 'i', 'n'}
)

var (
	errPingTimeout = errors.New("fastgrpc: the peer did not answer a keepalive ping before the keepalive timeout")
	errConnAge     = errors.New("fastgrpc: the connection is older than MaxConnectionAge plus MaxConnectionAgeGrace")
	errNoSettings  = errors.New("fastgrpc: the peer sent no HTTP/2 SETTINGS before the connection timeout")
)

// pingIfSilent pings a peer that has sent nothing for the keepalive time. It closes the connection
// if the peer has not answered in time.
func (c *conn) pingIfSilent() {
	switch ping, lost := c.clock.CheckPing(time.Duration(c.LastRead.Load())); {
	case lost:
		c.CloseLocked(errPingTimeout)
	case ping:
		c.h2.Ping(keepalivePing)
	}
}

// onContentFreed lets the peer send more, because messages have been read and their memory is free.
func (c *conn) onContentFreed() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Err() == nil {
		c.h2.GrantContent()
		c.Flush()
	}
}

// reportClosed ends the connection's context and reports the end to the stats handler.
func (c *conn) reportClosed() {
	c.end()
	c.reportConn(&stats.ConnEnd{Client: c.isClient})
}

func (c *conn) reportConn(event stats.ConnStats) {
	for _, h := range c.stats {
		h.HandleConn(c.ctx, event)
	}
}

// Counters hold the counts of one connection, or of all connections of a server or client: calls
// (CallsStarted, CallsSucceeded, CallsFailed), bytes (BytesIn, BytesOut) and system calls (Reads,
// Writes). The more calls per write, the better the frames are batched.
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

// connSet holds the connections of a server or a client, and the counters of closed connections.
type connSet[C connSetMember] struct {
	set    rpccall.Conns[C]
	ending []C      // closed connections whose handlers still run
	gone   Counters // sums of the counters of all other closed connections
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
	s.dropFinished()
}

// dropFinished removes closed connections without running calls from s.ending, and adds their
// counters to s.gone. The lock is held.
func (s *connSet[C]) dropFinished() {
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

// Counters returns the sums of the counters of all connections, open and closed.
func (s *connSet[C]) Counters() Counters {
	s.set.Mu.Lock()
	defer s.set.Mu.Unlock()
	s.dropFinished()
	total := s.gone
	for _, c := range slices.Concat(s.set.All(), s.ending) {
		total = batchio.Sum(total, c.info().Counters)
	}
	return total
}

// Transparent is implemented by a connection that wraps a socket and does not change its bytes, for
// example to count them. Custom dialers and listeners return such connections. All other wrappers
// are treated like TLS, which uses a little more CPU time.
//
// Socket returns the wrapped socket, which implements syscall.Conn. Writes, and reads after the
// first, bypass the wrapper and use the socket. Deadlines and Close use the wrapper.
type Transparent = batchio.Transparent

// limits holds the options that clients and servers share.
type limits struct {
	maxReceive, maxSend int
	h2                  h2.Config
	codec               message.Codec
	vt                  bool // the proto codec uses vtprotobuf's methods
	alias               bool
	stats               []stats.Handler
}

// memoryLimit limits each kind of memory that a connection keeps for its peer, if the windows have
// their default sizes. See h2/memory.go.
const memoryLimit = 64 << 20

// h2Config returns the h2.Config. Its memory limit grows with the windows.
func (l *limits) h2Config() h2.Config {
	cfg := l.h2
	windows := 4 * int64(max(cfg.StreamWindow, cfg.ConnWindow))
	cfg.MemoryLimit = int(max(memoryLimit, min(windows, math.MaxInt)))
	return cfg
}

// defaultLimits returns the default limits of both ends. The message limits are grpc-go's.
func defaultLimits() limits {
	return limits{
		maxReceive: 4 << 20, maxSend: math.MaxInt32,
		h2: h2.Config{
			StreamWindow: 2 << 20, ConnWindow: 8 << 20,
			MaxFrameSize: 128 << 10, MaxHeaderList: 16 << 20, MaxStreams: math.MaxInt32,
			OutputLimit: 256 << 10,
			ControlRate: 1000, // per second; even this many new calls would do no harm
		},
	}
}

// codecFor returns the forced codec, or else the content-subtype's codec, which may be nil.
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
