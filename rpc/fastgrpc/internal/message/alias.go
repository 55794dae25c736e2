package message

import (
	"os"
	"sync"

	"wirelab.dev/rpc/batchio"
)

// Aliased holds the memory that the last message of a call may point into, until the
// next one is read. A handler may return while a goroutine of its own still receives, so
// whoever ends the call does not know whether the message is in use, and leaves its
// memory to the garbage collector.
type Aliased struct {
	mu    sync.Mutex
	owner *batchio.Buffer
	ended bool
}

// hold takes over the message's memory.
func (a *Aliased) hold(m *Message) {
	if CheckAliases && m.Owner != nil {
		own := batchio.NewBuffer(len(m.Data))
		copy(own.Data, m.Data)
		m.Owner.Release()
		m.Data, m.Owner = own.Data, own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case m.Owner == nil:
	case a.ended:
		m.Owner.Abandon()
	default:
		a.owner = m.Owner
	}
	m.Owner = nil
}

// Release lets the last message's memory be used again.
func (a *Aliased) Release() {
	a.mu.Lock()
	owner := a.owner
	a.owner = nil
	a.mu.Unlock()
	switch {
	case owner == nil:
	case CheckAliases:
		for i := range owner.Data {
			owner.Data[i] = Released
		}
		owner.Abandon()
	default:
		owner.Release()
	}
}

// End gives up the last message's memory.
func (a *Aliased) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.owner != nil {
		a.owner.Abandon()
		a.owner = nil
	}
}

// CheckAliases makes visible who uses a message after its time: its memory is then filled with
// the byte Released, and never used again. Under the race detector, which then reports the
// use, it is always set.
var CheckAliases = os.Getenv(AliasVariable) == "check"

const (
	// AliasVariable is the environment variable that sets CheckAliases to true with "check".
	AliasVariable = "FASTGRPC_ALIAS"
	// Released fills the memory of messages whose time has passed.
	Released = 0xdb
)
