package creditrpc

import (
	"errors"
	"time"

	"wirelab.dev/rpc/batchio"
)

// errSilent ends a connection whose peer has not answered a ping.
var errSilent = errors.New("creditrpc: the peer did not answer a ping in time")

// keepAlive finds out that a silent peer has gone. The connection's lock guards it.
type keepAlive struct {
	after, timeout time.Duration // of silence; 0: it never asks
	timer          *time.Timer
	waits          bool          // for the answer to a ping
	asked          time.Duration // when that was sent, since batchio.Epoch
}

// startKeepAlive is called before the connection is used.
func (c *conn) startKeepAlive(after, timeout time.Duration) {
	if after <= 0 {
		return
	}
	c.LastRead.Store(int64(time.Since(batchio.Epoch)))
	c.alive = keepAlive{after: after, timeout: timeout}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.alive.timer = time.AfterFunc(after, c.checkAlive)
}

// checkAlive asks a peer that has been silent, and gives up one that has not answered.
func (c *conn) checkAlive() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Err() != nil {
		return
	}
	k, now, heard := &c.alive, time.Since(batchio.Epoch), time.Duration(c.LastRead.Load())
	k.waits = k.waits && heard < k.asked
	var next time.Duration
	switch silent := now - heard; {
	case k.waits && now-k.asked >= k.timeout:
		c.CloseLocked(errSilent)
		return
	case k.waits:
		next = k.asked + k.timeout - now
	case silent >= k.after:
		k.waits, k.asked, next = true, now, k.timeout
		c.link.Ping([8]byte{})
		c.Flush()
	default:
		next = k.after - silent
	}
	k.timer.Reset(next)
}

// stopKeepAlive is called when the connection has ended.
func (c *conn) stopKeepAlive() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.alive.timer != nil {
		c.alive.timer.Stop()
	}
}
