package fastgrpc

import (
	"os"
	"sync"

	"wirelab.dev/rpc/batchio"
)

// aliased holds the memory that the last message of a call may point into, until the
// next one is read. A handler may return while a goroutine of its own still receives, so
// whoever ends the call does not know whether the message is in use, and leaves its
// memory to the garbage collector.
type aliased struct {
	mu    sync.Mutex
	owner *batchio.Buffer
	ended bool
}

// hold takes over the message's memory.
func (a *aliased) hold(m *message) {
	if checkAliases && m.owner != nil {
		own := batchio.NewBuffer(len(m.data))
		copy(own.Data, m.data)
		m.owner.Release()
		m.data, m.owner = own.Data, own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case m.owner == nil:
	case a.ended:
		m.owner.Abandon()
	default:
		a.owner = m.owner
	}
	m.owner = nil
}

// release lets the last message's memory be used again.
func (a *aliased) release() {
	a.mu.Lock()
	owner := a.owner
	a.owner = nil
	a.mu.Unlock()
	switch {
	case owner == nil:
	case checkAliases:
		for i := range owner.Data {
			owner.Data[i] = released
		}
		owner.Abandon()
	default:
		owner.Release()
	}
}

// end gives up the last message's memory.
func (a *aliased) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.owner != nil {
		a.owner.Abandon()
		a.owner = nil
	}
}

// checkAliases shows who uses a message after its time: its memory is then filled with
// the byte released, and nothing else ever stands there. Under the race detector, which
// then reports the use, it is set too.
var checkAliases = os.Getenv(aliasVariable) == "check"

const (
	aliasVariable = "FASTGRPC_ALIAS"
	released      = 0xdb
)
