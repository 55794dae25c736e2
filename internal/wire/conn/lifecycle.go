package conn

import (
	"sync/atomic"

	"wirelab.dev/internal/data/scenario"
)

// A Lifecycle says whether connections outlive calls, and how a new one begins.
type Lifecycle int

// The lifecycles.
const (
	Kept    Lifecycle = iota // opened once, used by call after call
	Fresh                    // one per call, with TLS after a full handshake
	Resumed                  // one per call, resuming a TLS session that the client got before its first call
	Early                    // the same, with the request as QUIC's early data (RFC 9001, section 4.6)
)

// LifecycleOf returns the lifecycle of a connection mode.
func LifecycleOf(mode scenario.ConnectionMode) Lifecycle {
	switch mode {
	case scenario.New:
		return Fresh
	case scenario.Resumed:
		return Resumed
	case scenario.Early:
		return Early
	default:
		return Kept
	}
}

// Turns holds clients or connections that calls use in turns. Goroutines may
// call Next concurrently, once All is set.
type Turns[T any] struct {
	All  []T
	turn atomic.Uint64
}

// Next returns the element whose turn it is.
func (t *Turns[T]) Next() T { return t.All[t.turn.Add(1)%uint64(len(t.All))] }
