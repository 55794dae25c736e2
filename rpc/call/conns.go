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
