package fastgrpc

import (
	"cmp"
	"errors"
	"math"
	"net"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/keepalive"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/h2"
)

// The defaults and limits are grpc-go's, so that it can replace either end.
const (
	forever            = time.Duration(math.MaxInt64)
	defaultServerPing  = 2 * time.Hour
	defaultPingTimeout = 20 * time.Second
	defaultPingMinTime = 5 * time.Minute
	idlePingMinTime    = 2 * time.Hour // without streams, unless PermitWithoutStream
	minClientPing      = 10 * time.Second
	minServerPing      = time.Second
	maxPingStrikes     = 2
	maxDrainPingWait   = 5 * time.Second
)

var (
	keepalivePing = [8]byte{'k', 'e', 'e', 'p'}
	drainPing     = [8]byte{'d', 'r', 'a', 'i', 'n'}
)

var (
	errPingTimeout = errors.New("fastgrpc: keepalive ping not answered before its timeout")
	errConnAge     = errors.New("fastgrpc: connection reached MaxConnectionAge and its grace period")
	errNoPreface   = errors.New("fastgrpc: peer sent no HTTP/2 SETTINGS before the timeout")
)

func setServerKeepaliveDefaults(p *keepalive.ServerParameters, e *keepalive.EnforcementPolicy) {
	p.MaxConnectionIdle = cmp.Or(p.MaxConnectionIdle, forever)
	p.MaxConnectionAge = cmp.Or(p.MaxConnectionAge, forever)
	p.MaxConnectionAgeGrace = cmp.Or(p.MaxConnectionAgeGrace, forever)
	p.Time = max(cmp.Or(p.Time, defaultServerPing), minServerPing)
	p.Timeout = cmp.Or(p.Timeout, defaultPingTimeout)
	e.MinTime = cmp.Or(e.MinTime, defaultPingMinTime)
}

// limitSilence makes the kernel end a connection whose peer acknowledges nothing for the
// keepalive timeout, as grpc-go does if there are pings (gRFC A18). Pings find a vanished
// peer too, only later.
func limitSilence(nc net.Conn, pingEvery, timeout time.Duration) {
	if pingEvery != forever {
		batchio.SetUserTimeout(nc, timeout)
	}
}

// keepaliveTimer checks when a connection must ping, drain or close. The connection's
// lock guards it; its timer fires without the lock.
type keepaliveTimer struct {
	ping    rpccall.PingTimer
	maxIdle time.Duration // forever turns the rule off

	timer     *time.Timer
	began     time.Duration
	idleSince time.Duration // 0 while calls are open

	now  time.Duration // of the check under way
	next time.Duration // how long to wait before the next check
}

func (c *conn) startKeepalive() {
	k := &c.keepalive
	k.began = time.Since(batchio.Epoch)
	k.idleSince = k.began
	c.LastRead.Store(int64(k.began))
	k.timer = time.AfterFunc(forever, func() {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		c.checkKeepalive()
	})
	c.checkKeepalive()
}

// checkKeepalive does what is due and sets the timer for what is due next.
func (c *conn) checkKeepalive() {
	if c.Err() != nil {
		return
	}
	k := &c.keepalive
	k.now = time.Since(batchio.Epoch)
	k.next = min(k.ping.Every, k.maxIdle)
	if c.role.checkTimes(); c.Err() != nil {
		return
	}
	c.Flush()
	k.timer.Reset(max(k.next, time.Millisecond))
}

// due reports whether so much time has passed since an event. If not, the next check
// comes no later than that.
func (k *keepaliveTimer) due(since, after time.Duration) bool {
	if after == forever {
		return false
	}
	left := after - (k.now - since) // since + after may overflow
	if left > 0 {
		k.next = min(k.next, left)
	}
	return left <= 0
}

func (k *keepaliveTimer) idleTooLong() bool {
	return k.idleSince > 0 && k.due(k.idleSince, k.maxIdle)
}

// pingIfSilent pings a peer that has been silent, and closes the connection if the peer
// does not answer.
func (c *conn) pingIfSilent() {
	k := &c.keepalive
	do, next := k.ping.Check(k.now, time.Duration(c.LastRead.Load()))
	k.next = min(k.next, next)
	switch do {
	case rpccall.PingLost:
		c.CloseLocked(errPingTimeout)
	case rpccall.PingNow:
		c.h2.Ping(keepalivePing)
	}
}

// pingGuard polices a client's pings.
type pingGuard struct {
	pinged       bool // the client has pinged before
	lastPing     time.Duration
	lastActivity uint64
	strikes      int
}

// onPing enforces the ping policy as grpc-go does: pings are free while responses are
// sent; otherwise they must be at least MinTime apart.
func (k *pingGuard) onPing(now time.Duration, c *h2.Conn, policy *keepalive.EnforcementPolicy) *h2.ConnError {
	since, first := now-k.lastPing, !k.pinged
	k.lastPing, k.pinged = now, true
	if c.Activity != k.lastActivity {
		k.lastActivity = c.Activity
		k.strikes = 0
		return nil
	}
	least := policy.MinTime
	if c.OpenStreams() == 0 && !policy.PermitWithoutStream {
		least = idlePingMinTime
	}
	if !first && since < least {
		k.strikes++
	}
	if k.strikes > maxPingStrikes {
		return &h2.ConnError{Code: http2.ErrCodeEnhanceYourCalm, Reason: "too_many_pings"}
	}
	return nil
}
