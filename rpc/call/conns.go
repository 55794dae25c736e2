package rpccall

import (
	"maps"
	"slices"
	"sync"
)

// A Conn is a connection that a server or a client runs.
type Conn interface {
	comparable
	// Start starts the connection's goroutines, and adds them to running.
	Start(running *sync.WaitGroup)
}

// Conns holds the open connections of a server or a client. Its lock also guards other
// fields of its owner.
type Conns[C Conn] struct {
	Mu      sync.Mutex
	Open    map[C]struct{}
	Closed  bool           // no more connections are added
	Running sync.WaitGroup // the connections' goroutines
}

// Add starts a connection. It reports false if the set is closed.
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

// Remove takes a connection that has ended out of the set.
func (s *Conns[C]) Remove(c C) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	delete(s.Open, c)
}

// All returns the open connections. The lock is held.
func (s *Conns[C]) All() []C { return slices.Collect(maps.Keys(s.Open)) }
