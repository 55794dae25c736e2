package chanpool

import (
	"io"
	"math/rand/v2"
	"slices"
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
	calls    atomic.Int64 // calls begun so far
	avoid    atomic.Int64 // no calls before this instant, because one has just failed; see Pool.now
	retired  atomic.Bool  // takes no new calls
	close    func()       // closes the channel once
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

// retire lets no more calls begin. When the last one has ended, the channel is closed.
func (m *member) retire() {
	m.retired.Store(true)
	if m.inFlight.Load() == 0 {
		m.close()
	}
}

// fewMembers is the number of members up to which leastLoaded compares all of them. If there are
// more, it compares two that it chooses at random.
const fewMembers = 4

// leastLoaded returns the member with the fewest calls in flight. It avoids members that have just
// failed, because a broken channel ends its calls fast, and would get all of them.
func leastLoaded(members []*member, now int64) *member {
	if n := len(members); n > fewMembers {
		a, b := rand.IntN(n), rand.IntN(n-1)
		if b >= a {
			b++
		}
		return lessLoaded(members[a], members[b], now)
	}
	best := members[0]
	for _, m := range members[1:] {
		best = lessLoaded(best, m, now)
	}
	return best
}

func lessLoaded(a, b *member, now int64) *member {
	badA, badB := a.avoid.Load() > now, b.avoid.Load() > now
	if badA && !badB || badA == badB && b.inFlight.Load() < a.inFlight.Load() {
		return b
	}
	return a
}

// avoidFor is the time for which a channel gets no calls after a failure, unless all have
// failed.
const avoidFor = 100 * time.Millisecond

// State describes a pool at one instant.
type State struct {
	Size      int  // channels that get new calls, outside of trials
	Trying    bool // a trial compares two sizes
	InFlight  int  // calls and streams
	Channels  []ChannelState
	Decisions []Decision // the last 16
}

// ChannelState describes one channel.
type ChannelState struct {
	InUse        bool // it gets new calls
	Leaving      bool // it is closed after its last call
	InFlight     int
	Calls        int    // calls begun so far
	Connectivity string // the channel's own state, or "" if it has none
}

// State returns the pool's state.
func (p *Pool) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Size: p.decider.size, Trying: p.decider.trial != nil, Decisions: slices.Clone(p.decisions)}
	inUse := 0
	if members := p.inUse.Load(); members != nil {
		inUse = len(*members)
	}
	add := func(m *member, c ChannelState) {
		c.InFlight, c.Calls = int(m.inFlight.Load()), int(m.calls.Load())
		if channel, ok := m.channel.(interface{ GetState() connectivity.State }); ok {
			c.Connectivity = channel.GetState().String()
		}
		s.InFlight += c.InFlight
		s.Channels = append(s.Channels, c)
	}
	for i, m := range p.members {
		add(m, ChannelState{InUse: i < inUse})
	}
	for m := range p.leaving {
		add(m, ChannelState{Leaving: true})
	}
	return s
}
