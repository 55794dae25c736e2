package creditrpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A conn is the part of a connection that clients and servers share. The lock of its batchio.Conn
// guards the link and the calls' streams.
type conn struct {
	batchio.Conn
	link     *link.Link
	clock    rpccall.Clock
	timer    *time.Timer   // calls checkTimeouts when a time limit may have passed
	maxHello time.Duration // the longest wait for the peer's Hello
	peer     *peer.Peer
	ctx      context.Context // ends with the connection
	end      context.CancelCauseFunc
}

// A role holds the methods of a connection that differ between clients and servers.
type role interface {
	batchio.Role
	link.Handler
}

func (c *conn) init(r role, nc net.Conn, auth credentials.AuthInfo, l *limits) {
	c.peer = &peer.Peer{Addr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), AuthInfo: auth}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.maxHello, c.clock.MaxIdle = l.handshakeTimeout, rpccall.Forever
	c.clock.Ping = rpccall.PingTimer{Every: rpccall.Forever, Timeout: l.pingTimeout}
	if l.silence > 0 {
		c.clock.Ping.Every = l.silence
	}
	c.Init(nc)
	cfg := l.link()
	cfg.MinReference = c.MinReference()
	c.link = link.New(cfg, r)
	c.Attach(c.link, r)
}

// retain returns a message whose data stay valid after the read. A message that the program reads
// soon retains the read buffer. retain copies a message that may stay unread for long. So that
// message takes no more memory than the peer had credit for.
func (c *conn) retain(m link.Message, unread bool) link.Message {
	switch {
	case m.Buffer != nil:
	case len(m.Data) == 0:
		m.Data = nil // an empty slice would keep the read buffer alive
	case unread && batchio.BufferSize(len(m.Data)) > 2*len(m.Data):
		m.Data = bytes.Clone(m.Data)
	case unread:
		m.Buffer = batchio.NewBuffer(len(m.Data))
		copy(m.Buffer.Data, m.Data)
		m.Data = m.Buffer.Data
	default:
		m.Buffer = c.Chunk()
		m.Buffer.Retain()
	}
	return m
}

// releaseAll releases the messages that the program will not read.
func releaseAll(inbox *rpccall.Queue[link.Message]) {
	for m, ok := inbox.Take(); ok; m, ok = inbox.Take() {
		m.Release()
	}
}

// sendLimit returns the lower of two limits for a sent message: most, and the peer's own limit. It
// is called after the peer's Hello has come, so the limit does not change.
func (c *conn) sendLimit(most int) int { return int(min(uint64(most), c.link.Peer().MaxMessage)) }

// Start starts the connection's goroutines and adds them to running.
func (c *conn) Start(running *sync.WaitGroup) {
	c.Mu.Lock()
	c.timer = c.clock.Start(&c.Conn, c.checkTimeouts)
	c.Mu.Unlock()
	c.Conn.Start(running)
}

var (
	errNoHello = errors.New("creditrpc: the client did not say Hello in time")
	errSilent  = errors.New("creditrpc: the peer did not answer a ping in time")
)

// checkTimeouts closes a connection whose client has not said Hello in time. It pings a silent
// peer, and closes the connection if no answer came. The lock is held.
func (c *conn) checkTimeouts() {
	if c.link.Peer().Version == 0 && c.clock.Due(c.clock.Began, c.maxHello) {
		c.CloseLocked(errNoHello)
		return
	}
	switch ping, lost := c.clock.CheckPing(time.Duration(c.LastRead.Load())); {
	case lost:
		c.CloseLocked(errSilent)
	case ping:
		c.link.Ping()
	}
}
