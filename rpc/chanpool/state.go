package chanpool

import "time"

// State is what a pool is at an instant.
type State struct {
	Size      int  // channels that new calls go to, outside of trials
	Trying    bool // two sizes are being compared
	InFlight  int  // calls and streams
	Channels  []ChannelState
	Decisions []Decision // the last 16
}

// ChannelState is what one channel is.
type ChannelState struct {
	InUse        bool // new calls may go to it
	Leaving      bool // it will be closed after its last call
	InFlight     int
	Calls        int    // that were begun
	Connectivity string // as the channel tells it; "" where it does not
}

// Decision is how a trial ended.
type Decision struct {
	At       time.Time
	From, To int     // channels
	Gain     float64 // by how much less a call took with more channels, as 0.1 for a tenth
	Pairs    int     // of epochs that were compared
	Why      string
}

// State returns what the pool is now.
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
