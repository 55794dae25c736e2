// Package lifetime decides when a connection pings, drains or closes, and limits how often a client
// may ping. The rules are grpc-go's. It must not know streams, and sets no timers.
package lifetime

import (
	"cmp"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/keepalive"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/h2"
)

// The values are grpc-go's, so that either end may use grpc-go.
const (
	Forever                   = rpccall.Forever
	defaultServerPingInterval = 2 * time.Hour
	DefaultPingTimeout        = 20 * time.Second
	defaultMinPingInterval    = 5 * time.Minute
	idleMinPingInterval       = 2 * time.Hour // for clients without streams, unless PermitWithoutStream is set
	MinClientPingInterval     = 10 * time.Second
	minServerPingInterval     = time.Second
	maxPingStrikes            = 2
	MaxDrainPingWait          = 5 * time.Second
)

// SetServerDefaults replaces zero values in a server's options by their defaults.
func SetServerDefaults(p *keepalive.ServerParameters, e *keepalive.EnforcementPolicy) {
	p.MaxConnectionIdle = cmp.Or(p.MaxConnectionIdle, Forever)
	p.MaxConnectionAge = cmp.Or(p.MaxConnectionAge, Forever)
	p.MaxConnectionAgeGrace = cmp.Or(p.MaxConnectionAgeGrace, Forever)
	p.Time = max(cmp.Or(p.Time, defaultServerPingInterval), minServerPingInterval)
	p.Timeout = cmp.Or(p.Timeout, DefaultPingTimeout)
	e.MinTime = cmp.Or(e.MinTime, defaultMinPingInterval)
}

// LimitPeerSilence makes the kernel close a connection whose peer has acknowledged no data for the
// given timeout. As in grpc-go (gRFC A18), it does nothing if keepalive pings are off. The kernel
// notices a lost peer sooner than pings do.
func LimitPeerSilence(nc net.Conn, pingEvery, timeout time.Duration) {
	if pingEvery != Forever {
		batchio.SetUserTimeout(nc, timeout)
	}
}

// A PingGuard limits how often a client may ping the server.
type PingGuard struct {
	lastPing     time.Duration // 0 before the first ping
	lastActivity uint64        // h2.Conn.Activity at the last ping
	strikes      int           // pings that came too early
}

// OnPing counts a ping that comes too early, and returns an error after more than maxPingStrikes of
// them. As in grpc-go, pings must be MinTime apart, unless the server has sent a response between
// them.
func (k *PingGuard) OnPing(now time.Duration, c *h2.Conn, policy *keepalive.EnforcementPolicy) *h2.ConnError {
	since, first := now-k.lastPing, k.lastPing == 0
	k.lastPing = now
	if c.Activity != k.lastActivity {
		k.lastActivity = c.Activity
		k.strikes = 0
		return nil
	}
	least := policy.MinTime
	if c.OpenStreams() == 0 && !policy.PermitWithoutStream {
		least = idleMinPingInterval
	}
	if !first && since < least {
		k.strikes++
	}
	if k.strikes > maxPingStrikes {
		return &h2.ConnError{Code: http2.ErrCodeEnhanceYourCalm, Reason: "too_many_pings"}
	}
	return nil
}

// JitterAge changes a maximum age at random by up to a tenth, as grpc-go does. Otherwise all
// connections of a restarted server would end at the same time.
func JitterAge(age time.Duration) time.Duration {
	if age == Forever {
		return age
	}
	age -= age / 10
	return age + min(time.Duration(rand.Float64()*float64(age)/4.5), Forever-age)
}
