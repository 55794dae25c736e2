package fleet

import (
	"sync"
	"time"
)

const (
	// maxBytesPerSecond limits the bytes per second that an agent sends about a running worker:
	// more traffic could disturb the measurement.
	maxBytesPerSecond = 1000
	// maxSilence is the time without a message after which an agent sends progress again.
	maxSilence = 1200 * time.Millisecond
)

// A byteBudget limits the bytes that an agent sends.
type byteBudget struct {
	guard  sync.Mutex
	left   int
	filled time.Time // the time of the last update of left
	told   time.Time // the time of the last message
}

func newBudget() *byteBudget { return &byteBudget{left: maxBytesPerSecond, filled: time.Now()} }

// trySpend takes bytes from the budget. It returns false if not enough bytes are left.
func (b *byteBudget) trySpend(bytes int) bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	now := time.Now()
	b.left = min(maxBytesPerSecond, b.left+int(now.Sub(b.filled).Seconds()*maxBytesPerSecond))
	b.filled = now
	if bytes > b.left {
		return false
	}
	b.left -= bytes
	b.told = now
	return true
}

// isSilent reports whether no message was sent for longer than maxSilence.
func (b *byteBudget) isSilent() bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	return time.Since(b.told) > maxSilence
}
