package probe

import "wirelab.dev/internal/data/record"

// End is one end of a wire.
type End int

// The ends.
const (
	Server End = iota
	Client
)

// A Watch sees more of a trial's two processes than their own counters tell, at a cost: a
// trial that is watched is not measured. It begins before the processes do.
type Watch interface {
	// Process says which process is at an end, in place of the one that it was told
	// before.
	Process(end End, pid int) error
	// Ability is how it sees, and what it cannot see here.
	Ability() Ability
	// Stop ends the watch, and returns what was seen in the window.
	Stop(Measured) (Sight, error)
}

// A PortWatch is a Watch that knows the ends' sockets by the server's port, too.
type PortWatch interface {
	Watch
	// Listens says at which port the server listens.
	Listens(port int) error
}

// Ability is how a probe sees on this machine.
type Ability struct {
	Method  string   `json:"method"`
	Missing []string `json:"missing,omitempty"` // each with the reason and a cure
}

// Measured is the measured window, with what the processes themselves noted in it.
type Measured struct {
	Span
	// Calls are the begin of each call, and how long it took; Handled those of the
	// handlers. Only the probe of a call's life has them.
	Calls, Handled [][2]int64
	Port           int // of the server
}

// Span is the time between two instants.
type Span struct{ BeginNS, EndNS int64 }

// Sight is what a watch saw.
type Sight struct {
	Server, Client record.Seen
	Life           *record.Life // nil: it was not looked for
}

// Of returns the part of one end.
func (s *Sight) Of(end End) *record.Seen {
	if end == Server {
		return &s.Server
	}
	return &s.Client
}
