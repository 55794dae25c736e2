package chanpool

import (
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// A Channel carries calls: a *grpc.ClientConn, a *fastgrpc.Client, a *creditrpc.Client, or
// another type with these methods.
type Channel interface {
	grpc.ClientConnInterface
	io.Closer
}

// A member is a channel of a pool.
type member struct {
	channel  Channel
	inFlight atomic.Int64
	calls    atomic.Int64 // begun so far
	avoid    atomic.Int64 // until this instant, because a call has just failed; see Pool.now
	retired  atomic.Bool  // takes no new calls
	closed   atomic.Bool
	onClosed func(error)
}

// acquire begins a call. It returns false if the member takes no more calls.
func (m *member) acquire() bool {
	m.inFlight.Add(1)
	if m.retired.Load() {
		m.release()
		return false
	}
	return true
}

// release ends a call. The last one of a retired member closes it.
func (m *member) release() {
	if m.inFlight.Add(-1) == 0 && m.retired.Load() {
		m.close()
	}
}

// retire lets no more calls begin, and closes the channel when the last has ended.
func (m *member) retire() {
	m.retired.Store(true)
	if m.inFlight.Load() == 0 {
		m.close()
	}
}

func (m *member) close() {
	if m.closed.CompareAndSwap(false, true) {
		m.onClosed(m.channel.Close())
	}
}

// connectivity returns the channel's state, or "" if it has none.
func (m *member) connectivity() string {
	if c, ok := m.channel.(interface{ GetState() connectivity.State }); ok {
		return c.GetState().String()
	}
	return ""
}

// fewMembers is the number of members up to which least compares all of them. Of more, it
// compares two that are chosen at random.
const fewMembers = 4

// least returns the member with the fewest calls in flight. It returns one that has just
// failed only if all have: a broken channel ends its calls fast, and would get all of them.
func least(members []*member, now int64) *member {
	switch n := len(members); {
	case n == 1:
		return members[0]
	case n <= fewMembers:
		best := members[0]
		for _, m := range members[1:] {
			best = better(best, m, now)
		}
		return best
	default:
		a, b := rand.IntN(n), rand.IntN(n-1)
		if b >= a {
			b++
		}
		return better(members[a], members[b], now)
	}
}

func better(a, b *member, now int64) *member {
	badA, badB := a.avoid.Load() > now, b.avoid.Load() > now
	switch {
	case badA != badB && badA:
		return b
	case badA != badB:
		return a
	case b.inFlight.Load() < a.inFlight.Load():
		return b
	}
	return a
}

// avoidFor is the time for which a channel gets no calls after a failure, unless all have
// failed.
const avoidFor = 100 * time.Millisecond
