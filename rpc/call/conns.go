package rpccall

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A Conn is a connection that a server or a client runs.
type Conn interface {
	comparable
	// Start starts the connection's goroutines, and adds them to running.
	Start(running *sync.WaitGroup)
}

// Conns holds a server's or a client's open connections. Its lock also guards the owner's fields.
type Conns[C Conn] struct {
	Mu      sync.Mutex
	Open    map[C]struct{}
	Closed  bool           // no more connections are added
	Running sync.WaitGroup // counts the connections' goroutines
}

// Add adds a connection and starts it. It returns false if Closed is set.
func (s *Conns[C]) Add(c C) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return false
	}
	if s.Open == nil {
		s.Open = make(map[C]struct{})
	}
	s.Open[c] = struct{}{}
	c.Start(&s.Running)
	return true
}

// Remove removes a connection that has ended.
func (s *Conns[C]) Remove(c C) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	delete(s.Open, c)
}

// All returns the open connections. The caller holds the lock.
func (s *Conns[C]) All() []C { return slices.Collect(maps.Keys(s.Open)) }

// A PingTimer decides when to ping a silent peer, and when to close its connection. The owner's
// lock guards the PingTimer. Its times count from batchio.Epoch.
type PingTimer struct {
	Every   time.Duration // how long the peer may be silent before a ping
	Timeout time.Duration // the longest wait for the answer to a ping

	sent  time.Duration // when the unanswered ping was sent
	waits bool          // the last ping has no answer yet
}

// A PingAction tells the owner of a PingTimer what to do.
type PingAction int

// The actions.
const (
	PingNothing PingAction = iota
	PingNow                // send a ping
	PingLost               // close the connection: the ping was not answered in time
)

// Check returns what to do now, and when to check again. lastRead is the time of the last read.
func (p *PingTimer) Check(now, lastRead time.Duration) (do PingAction, next time.Duration) {
	if p.waits = p.waits && lastRead < p.sent; p.waits {
		if left := p.Timeout - (now - p.sent); left > 0 {
			return PingNothing, left
		}
		return PingLost, 0
	}
	if left := p.Every - max(0, now-lastRead); left > 0 { // lastRead may be later than now
		return PingNothing, left
	}
	p.waits, p.sent = true, now
	return PingNow, p.Timeout
}
