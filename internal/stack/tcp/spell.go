package tcp

import (
	"sync/atomic"
	"time"
)

// patrolEvery is the time between two rounds of the patrol: a peer may let a
// server wait in the middle of a frame for one to two of them.
const patrolEvery = 15 * time.Second

// spell is a time of waiting on the peer that must not last. It costs two
// stores to be in one, where a deadline on the connection would cost a call
// into the runtime's timers: one patrol looks at all spells, and knows by their
// numbers which are still those of its last round.
//
// A nil spell may last.
type spell struct {
	number atomic.Uint64 // of the present spell; 0: none
	count  uint64        // the waiting goroutine's
	seen   uint64        // the patrol's
}

func (s *spell) begin() {
	if s != nil {
		s.count++
		s.number.Store(s.count)
	}
}

func (s *spell) end() {
	if s != nil {
		s.number.Store(0)
	}
}

// lasts tells the patrol whether the spell of its last round goes on.
func (s *spell) lasts() bool {
	number, before := s.number.Load(), s.seen
	s.seen = number
	return number != 0 && number == before
}
