package rpccall

import (
	"math"
	"time"

	"wirelab.dev/rpc/batchio"
)

// Forever is a time limit that never passes.
const Forever = time.Duration(math.MaxInt64)

// A Clock says which time limits of a connection have passed, and when to check again. Its times
// count from batchio.Epoch. The connection's lock guards it.
type Clock struct {
	Ping    PingTimer
	MaxIdle time.Duration // Forever means no limit

	Began     time.Duration // when the connection began
	IdleSince time.Duration // when the last call ended; 0 while calls are open

	Now  time.Duration // the time of the current check
	next time.Duration // the wait until the next check
}

// A PingTimer says when to ping a silent peer.
type PingTimer struct {
	Every   time.Duration // how long the peer may be silent before a ping; Forever means no pings
	Timeout time.Duration // the longest wait for the answer to a ping

	sent  time.Duration // when the unanswered ping was sent
	waits bool          // the last ping has no answer yet
}

// Start sets a timer that calls check, with the lock of connection c held, whenever a limit may
// have passed. check may close c. The caller holds the lock, and stops the timer when c has ended.
func (k *Clock) Start(c *batchio.Conn, check func()) (timer *time.Timer) {
	k.Began = time.Since(batchio.Epoch)
	k.IdleSince = k.Began
	c.LastRead.Store(int64(k.Began))
	timer = time.AfterFunc(0, func() {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		if c.Err() != nil {
			return
		}
		k.begin(time.Since(batchio.Epoch))
		if check(); c.Err() == nil {
			c.Flush()
			timer.Reset(max(k.next, time.Millisecond))
		}
	})
	return timer
}

// begin begins a check.
func (k *Clock) begin(now time.Duration) { k.Now, k.next = now, min(k.Ping.Every, k.MaxIdle) }

// Due reports whether the time limit has passed since start. If not, Due makes the next check come
// when the limit has passed, or earlier.
func (k *Clock) Due(start, limit time.Duration) bool {
	if limit == Forever {
		return false
	}
	left := limit - max(0, k.Now-start) // start may be later than now, and start + limit could overflow
	if left > 0 {
		k.next = min(k.next, left)
	}
	return left <= 0
}

// IdleTooLong reports whether the connection has had no call for MaxIdle.
func (k *Clock) IdleTooLong() bool { return k.IdleSince > 0 && k.Due(k.IdleSince, k.MaxIdle) }

// CheckPing returns whether to ping the peer, or to close the connection because the peer has not
// answered the last ping. lastRead is the time of the last read from the peer.
func (k *Clock) CheckPing(lastRead time.Duration) (ping, lost bool) {
	p := &k.Ping
	if p.waits = p.waits && lastRead < p.sent; p.waits {
		return false, k.Due(p.sent, p.Timeout)
	}
	if ping = k.Due(lastRead, p.Every); ping {
		p.waits, p.sent = true, k.Now
		k.Due(p.sent, p.Timeout)
	}
	return ping, false
}
