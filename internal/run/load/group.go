package load

import (
	"math/rand/v2"
)

// A Group says which callers of a larger group a plan has: the callers from First on. Arrivals and
// Extra then describe the whole group, and each plan takes the share of its own callers. Plans that
// share a seed and an instant of begin thus send the same requests together as one plan would.
type Group struct {
	First int // from 0
	Of    int // callers of the whole group
}

// A share says which arrivals of a schedule belong to a plan: those of the clients from first to
// first+clients, of all.
type share struct{ first, clients, of int64 }

// number returns the number among all arrivals of the plan's arrival own, if clients take turns.
func (s share) number(own int64) int64 { return own/s.clients*s.of + s.first + own%s.clients }

// count returns how many of all arrivals belong to the plan, if clients take turns.
func (s share) count(all int64) int64 {
	return all/s.of*s.clients + min(max(all%s.of-s.first, 0), s.clients)
}

// expected returns how many of all arrivals will belong to the plan.
func (s share) expected(all float64) float64 { return all * float64(s.clients) / float64(s.of) }

// turns returns a function that reports whether an arrival belongs to the plan, if clients take
// turns. It must be called once per arrival, in order.
func (s share) turns() func() bool {
	client := s.of - 1
	return func() bool {
		client = (client + 1) % s.of
		return s.first <= client && client < s.first+s.clients
	}
}

// draws returns the same function for arrivals whose client is drawn: a Poisson process that is
// thinned out in this way is one, too.
func (s share) draws(seed uint64) func() bool {
	if s.clients == s.of {
		return func() bool { return true }
	}
	random := rand.New(rand.NewPCG(seed, 0x67726f7570)) // the constant keeps it different from other uses of the seed
	return func() bool {
		client := random.Int64N(s.of)
		return s.first <= client && client < s.first+s.clients
	}
}

// A Cue names the signal that a plan waits for.
type Cue int

// The cues.
const (
	AtOnce Cue = iota // nothing
	OnGo              // Controls.Go
	OnOpen            // Controls.Open
)
