package fleet

import (
	"sync"
	"time"
)

const (
	// quietBytes is the most bytes that an agent may send per second about a running worker:
	// more would be a load of its own on the measured machines.
	quietBytes = 1000
	// repeatAfter is the silence after which an agent repeats what it has sent already.
	repeatAfter = 1200 * time.Millisecond
)

// A budget limits the bytes that an agent sends.
type budget struct {
	guard  sync.Mutex
	left   int
	filled time.Time // when left was last updated
	told   time.Time
}

func newBudget() *budget { return &budget{left: quietBytes, filled: time.Now()} }

// spend takes bytes out of the budget, if there are enough.
func (b *budget) spend(bytes int) bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	now := time.Now()
	b.left = min(quietBytes, b.left+int(now.Sub(b.filled).Seconds()*quietBytes))
	b.filled = now
	if bytes > b.left {
		return false
	}
	b.left -= bytes
	b.told = now
	return true
}

// isSilent reports whether nothing was sent for a while.
func (b *budget) isSilent() bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	return time.Since(b.told) > repeatAfter
}
