// Package lifetime has the rules for when a connection pings, drains or closes, and for how
// often a client may ping: they are grpc-go's. It must not know streams, and sets no timer.
package lifetime

import (
	"cmp"
	"math"
	"math/rand/v2"
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
	Forever            = time.Duration(math.MaxInt64)
	defaultServerPing  = 2 * time.Hour
	DefaultPingTimeout = 20 * time.Second
	defaultPingMinTime = 5 * time.Minute
	idlePingMinTime    = 2 * time.Hour // without streams, unless PermitWithoutStream
	MinClientPing      = 10 * time.Second
	minServerPing      = time.Second
	maxPingStrikes     = 2
	MaxDrainPingWait   = 5 * time.Second
)

// SetServerDefaults replaces the zero values of a server's options by their defaults.
func SetServerDefaults(p *keepalive.ServerParameters, e *keepalive.EnforcementPolicy) {
	p.MaxConnectionIdle = cmp.Or(p.MaxConnectionIdle, Forever)
	p.MaxConnectionAge = cmp.Or(p.MaxConnectionAge, Forever)
	p.MaxConnectionAgeGrace = cmp.Or(p.MaxConnectionAgeGrace, Forever)
	p.Time = max(cmp.Or(p.Time, defaultServerPing), minServerPing)
	p.Timeout = cmp.Or(p.Timeout, DefaultPingTimeout)
	e.MinTime = cmp.Or(e.MinTime, defaultPingMinTime)
}

// LimitSilence makes the kernel end a connection whose peer acknowledges nothing for the
// keepalive timeout, as grpc-go does if there are pings (gRFC A18). Pings find a vanished peer
// later.
func LimitSilence(nc net.Conn, pingEvery, timeout time.Duration) {
	if pingEvery != Forever {
		batchio.SetUserTimeout(nc, timeout)
	}
}

// A Clock decides what a connection must do now, and when to check again. The connection's lock
// guards it. Its times are since batchio.Epoch.
type Clock struct {
	Ping    rpccall.PingTimer
	MaxIdle time.Duration // Forever turns the rule off

	Began     time.Duration
	IdleSince time.Duration // 0 while calls are open

	Now  time.Duration // time of the current check
	Next time.Duration // the wait until the next check
}

// Begin begins a check.
func (k *Clock) Begin(now time.Duration) {
	k.Now, k.Next = now, min(k.Ping.Every, k.MaxIdle)
}

// Due reports whether the time after has passed since an event. If not, the next check comes at
// its end, or earlier.
func (k *Clock) Due(since, after time.Duration) bool {
	if after == Forever {
		return false
	}
	left := after - (k.Now - since) // since + after may overflow
	if left > 0 {
		k.Next = min(k.Next, left)
	}
	return left <= 0
}

// IdleTooLong reports whether the connection has had no call for MaxIdle.
func (k *Clock) IdleTooLong() bool {
	return k.IdleSince > 0 && k.Due(k.IdleSince, k.MaxIdle)
}

// CheckPing returns what to do about a peer that was last heard at lastRead.
func (k *Clock) CheckPing(lastRead time.Duration) rpccall.PingAction {
	do, next := k.Ping.Check(k.Now, lastRead)
	k.Next = min(k.Next, next)
	return do
}

// A Guard limits a client's pings.
type Guard struct {
	pinged       bool // the client has pinged before
	lastPing     time.Duration
	lastActivity uint64
	strikes      int
}

// OnPing enforces the ping policy as grpc-go does: pings are free while responses are
// sent; otherwise they must be at least MinTime apart.
func (k *Guard) OnPing(now time.Duration, c *h2.Conn, policy *keepalive.EnforcementPolicy) *h2.ConnError {
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

// Jitter changes an age by up to a tenth, as grpc-go does, so that the connections of a restarted
// server do not all end together.
func Jitter(age time.Duration) time.Duration {
	if age == Forever {
		return age
	}
	age -= age / 10
	return age + min(time.Duration(rand.Float64()*float64(age)/4.5), Forever-age)
}
