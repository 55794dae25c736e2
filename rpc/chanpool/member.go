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
	avoid    atomic.Int64 // time of Pool.now before which the member gets no calls, after a failure
	retired  atomic.Bool  // the member takes no new calls
	close    func()       // closes the channel once
}

// acquire counts a new call. It returns false if the member takes no more calls.
func (m *member) acquire() bool {
	m.inFlight.Add(1)
	if m.retired.Load() {
		m.release()
		return false
	}
	return true
}

// release counts the end of a call. It closes a retired member after the member's last call.
func (m *member) release() {
	if m.inFlight.Add(-1) == 0 && m.retired.Load() {
		m.close()
	}
}

// retire lets no more calls begin. The channel is closed when the last call has ended.
func (m *member) retire() {
	m.retired.Store(true)
	if m.inFlight.Load() == 0 {
		m.close()
	}
}

// fewMembers is the number of members up to which leastLoaded compares all members. If there are
// more, leastLoaded compares two members, which it chooses at random.
const fewMembers = 4

// leastLoaded returns the member with the fewest calls in flight. It avoids members that have just
// failed: a broken channel ends its calls fast, so it would get all calls. Of equal members it returns
// the first one from a number on.
func leastLoaded(members []*member, now int64, from uint32) *member {
	if n := len(members); n > fewMembers {
		a, b := rand.IntN(n), rand.IntN(n-1)
		if b >= a {
			b++
		}
		return lessLoaded(members[a], members[b], now)
	}
	first := int(from % uint32(len(members)))
	best := members[first]
	for i := 1; i < len(members); i++ {
		best = lessLoaded(best, members[(first+i)%len(members)], now)
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

// avoidFor is the time without calls for a channel that has failed, unless all have failed.
const avoidFor = 100 * time.Millisecond

// State describes a pool at one instant.
type State struct {
	Size      int  // channels that get new calls while there is no trial
	Trying    bool // a trial compares two sizes
	InFlight  int  // calls and streams
	Channels  []ChannelState
	Decisions []Decision // the last 16 decisions
}

// ChannelState describes one channel.
type ChannelState struct {
	InUse        bool // the channel gets new calls
	Leaving      bool // the channel will be closed after its last call
	InFlight     int
	Calls        int    // calls begun so far
	Connectivity string // the state that the channel reports, or "" if it reports none
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
