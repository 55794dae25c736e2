package chanpool

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
	Calls        int    // begun so far
	Connectivity string // the channel's own state, or "" if it has none
}

// State returns the pool's state.
func (p *Pool) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Size: p.decider.size, Trying: p.decider.trial != nil, Decisions: append([]Decision(nil), p.decisions...)}
	inUse := 0
	if members := p.inUse.Load(); members != nil {
		inUse = len(*members)
	}
	for i, m := range p.members {
		s.Channels = append(s.Channels, stateOf(m, i < inUse, false))
	}
	for m := range p.leaving {
		s.Channels = append(s.Channels, stateOf(m, false, true))
	}
	for _, c := range s.Channels {
		s.InFlight += c.InFlight
	}
	return s
}

func stateOf(m *member, inUse, leaving bool) ChannelState {
	return ChannelState{InUse: inUse, Leaving: leaving, InFlight: int(m.inFlight.Load()), Calls: int(m.calls.Load()), Connectivity: m.connectivity()}
}
