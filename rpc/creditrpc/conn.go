package creditrpc

import (
	"bytes"
	"context"
	"errors"
	"net"
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
	link  *link.Link
	alive keepAlive // guarded by the lock
	peer  *peer.Peer
	ctx   context.Context // ends with the connection
	end   context.CancelCauseFunc
}

// A role holds the methods of a connection that differ between clients and servers.
type role interface {
	batchio.Role
	link.Handler
}

func (c *conn) init(r role, nc net.Conn, auth credentials.AuthInfo, cfg link.Config) {
	c.peer = &peer.Peer{Addr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), AuthInfo: auth}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.Init(nc)
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

// errSilent ends a connection whose peer has not answered a ping.
var errSilent = errors.New("creditrpc: the peer did not answer a ping in time")

// keepAlive detects that a silent peer is gone. The connection's lock guards it.
type keepAlive struct {
	ping  rpccall.PingTimer
	timer *time.Timer // nil means that no pings are sent
}

// startKeepAlive makes the connection ping a silent peer. It does nothing if after is 0.
func (c *conn) startKeepAlive(after, timeout time.Duration) {
	if after <= 0 {
		return
	}
	c.LastRead.Store(int64(time.Since(batchio.Epoch)))
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.alive = keepAlive{rpccall.PingTimer{Every: after, Timeout: timeout}, time.AfterFunc(after, c.checkAlive)}
}

// checkAlive pings a silent peer, and closes the connection if no answer came.
func (c *conn) checkAlive() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Err() != nil {
		return
	}
	do, next := c.alive.ping.Check(time.Since(batchio.Epoch), time.Duration(c.LastRead.Load()))
	switch do {
	case rpccall.PingLost:
		c.CloseLocked(errSilent)
		return
	case rpccall.PingNow:
		c.link.Ping()
		c.Flush()
	}
	c.alive.timer.Reset(next)
}

// stopKeepAlive is called when the connection has ended.
func (c *conn) stopKeepAlive() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.alive.timer != nil {
		c.alive.timer.Stop()
	}
}
