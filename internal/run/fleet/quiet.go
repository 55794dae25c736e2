package fleet

import (
	"sync"
	"time"
)

const (
	// maxBytesPerSecond limits messages about a running worker: more could disturb the trial.
	maxBytesPerSecond = 1000
	// maxSilence is the time without any message after which an agent sends progress.
	maxSilence = 1200 * time.Millisecond
)

// A byteBudget limits how many bytes per second an agent sends.
type byteBudget struct {
	guard  sync.Mutex
	left   int
	filled time.Time // when left was last updated
	told   time.Time // when the last message was sent
}

func newBudget() *byteBudget { return &byteBudget{left: maxBytesPerSecond, filled: time.Now()} }

// trySpend subtracts a message's bytes from the budget. It returns false if too few bytes are left.
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

// isSilent reports whether the last message is older than maxSilence.
func (b *byteBudget) isSilent() bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	return time.Since(b.told) > maxSilence
}
