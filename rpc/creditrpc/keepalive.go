package creditrpc

import (
	"errors"
	"time"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
)

// errSilent ends a connection whose peer has not answered a ping.
var errSilent = errors.New("creditrpc: the peer did not answer a ping in time")

// keepAlive detects that a silent peer has gone. The connection's lock guards it.
type keepAlive struct {
	ping  rpccall.PingTimer
	timer *time.Timer // nil: it never pings
}

// startKeepAlive is called before the connection is used. It does nothing if after is 0.
func (c *conn) startKeepAlive(after, timeout time.Duration) {
	if after <= 0 {
		return
	}
	c.LastRead.Store(int64(time.Since(batchio.Epoch)))
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.alive = keepAlive{rpccall.PingTimer{Every: after, Timeout: timeout}, time.AfterFunc(after, c.checkAlive)}
}

// checkAlive pings a peer that has been silent, and gives up one that has not answered.
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
		c.link.Ping([8]byte{})
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
