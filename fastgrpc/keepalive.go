package fastgrpc

import (
	"errors"
	"math"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/keepalive"

	"wirelab.dev/fastgrpc/internal/h2"
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
	errConnIdle    = errors.New("fastgrpc: connection closed after its idle timeout")
	errConnAge     = errors.New("fastgrpc: connection reached MaxConnectionAge and its grace period")
	errNoPreface   = errors.New("fastgrpc: peer sent no HTTP/2 SETTINGS before the timeout")
)

func setServerKeepaliveDefaults(p *keepalive.ServerParameters, e *keepalive.EnforcementPolicy) {
	orForever := func(d *time.Duration) {
		if *d == 0 {
			*d = forever
		}
	}
	orForever(&p.MaxConnectionIdle)
	orForever(&p.MaxConnectionAge)
	orForever(&p.MaxConnectionAgeGrace)
	if p.Time == 0 {
		p.Time = defaultServerPing
	}
	p.Time = max(p.Time, minServerPing)
	if p.Timeout == 0 {
		p.Timeout = defaultPingTimeout
	}
	if e.MinTime == 0 {
		e.MinTime = defaultPingMinTime
	}
}

// pinger decides when to send keepalive pings and when the peer is dead.
type pinger struct {
	every, timeout time.Duration
	pingSent       time.Duration // when the unanswered ping was sent; 0 if there is none
}

// check takes the current time and the time of the last read. It returns how long to
// wait before the next check, whether to ping, and whether the peer is dead.
func (p *pinger) check(now, lastRead time.Duration) (next time.Duration, ping, dead bool) {
	if p.pingSent > 0 && lastRead < p.pingSent {
		if left := p.pingSent + p.timeout - now; left > 0 {
			return left, false, false
		}
		return 0, false, true
	}
	p.pingSent = 0
	if left := lastRead + p.every - now; left > 0 {
		return left, false, false
	}
	p.pingSent = now
	return p.timeout, true, false
}

// serverKeepalive closes one server connection when it is idle, too old or does not
// answer pings, and polices the client's pings. The connection's lock guards it; its
// timer fires without the lock.
type serverKeepalive struct {
	conn      *serverConn
	timer     *time.Timer
	pinger    pinger
	began     time.Duration
	idleSince time.Duration // 0 while calls are open
	drainAt   time.Duration // when the drain began
	drained   bool          // the final GOAWAY has been sent

	pinged       bool // the client has pinged before
	lastPing     time.Duration
	lastActivity uint64
	strikes      int
}

func (k *serverKeepalive) start(c *serverConn) {
	p := &c.server.opts.keepalive
	k.conn = c
	k.pinger = pinger{every: p.Time, timeout: p.Timeout}
	k.began = time.Since(epoch)
	k.idleSince = k.began
	first := min(c.server.opts.handshakeTimeout, p.Time, p.MaxConnectionAge, p.MaxConnectionIdle)
	k.timer = time.AfterFunc(first, k.check)
}

func (k *serverKeepalive) stop()    { k.timer.Stop() }
func (k *serverKeepalive) setBusy() { k.idleSince = 0 }

func (k *serverKeepalive) setIdle() { k.idleSince = time.Since(epoch) }

func (k *serverKeepalive) drainAnswered(data [8]byte) bool {
	if data != drainPing || k.drained {
		return false
	}
	k.drained = true
	return true
}

// check does what is due and sets the timer for what is due next.
func (k *serverKeepalive) check() {
	c := k.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	p := &c.server.opts.keepalive
	now := time.Since(epoch)
	if wait := c.server.opts.handshakeTimeout; !c.h2.SettingsReceived() {
		if left := k.began + wait - now; left > 0 {
			k.timer.Reset(left)
		} else {
			c.closeLocked(errNoPreface)
		}
		return
	}
	next, ping, dead := k.pinger.check(now, time.Duration(c.lastRead.Load()))
	if dead {
		c.closeLocked(errPingTimeout)
		return
	}
	if ping {
		c.h2.Ping(keepalivePing)
	}
	due := func(since, after time.Duration) bool {
		if after == forever {
			return false
		}
		left := since + after - now
		if left > 0 {
			next = min(next, left)
		}
		return left <= 0
	}
	if k.drainAt == 0 {
		if due(k.began, p.MaxConnectionAge) || k.idleSince > 0 && due(k.idleSince, p.MaxConnectionIdle) {
			k.beginDrain(now)
			next = min(next, maxDrainPingWait)
		}
	} else {
		if due(k.drainAt, maxDrainPingWait) && k.drainAnswered(drainPing) {
			c.h2.GoAway(http2.ErrCodeNo, "")
		}
		if p.MaxConnectionAgeGrace != forever && due(k.drainAt, p.MaxConnectionAgeGrace) {
			c.closeLocked(errConnAge)
			return
		}
		c.closeIfDrained()
	}
	c.flush()
	k.timer.Reset(max(next, time.Millisecond))
}

func (k *serverKeepalive) beginDrain(now time.Duration) {
	k.drainAt = now
	k.conn.h2.GoAwaySoon()
	k.conn.h2.Ping(drainPing)
}

// onPing enforces the ping policy as grpc-go does: pings are free while responses are
// sent; otherwise they must be at least MinTime apart.
func (k *serverKeepalive) onPing(now time.Duration, activity uint64, streams int) *h2.ConnError {
	policy := &k.conn.server.opts.policy
	since, first := now-k.lastPing, !k.pinged
	k.lastPing, k.pinged = now, true
	if activity != k.lastActivity {
		k.lastActivity = activity
		k.strikes = 0
		return nil
	}
	least := policy.MinTime
	if streams == 0 && !policy.PermitWithoutStream {
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
