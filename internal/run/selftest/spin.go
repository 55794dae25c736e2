package selftest

import (
	"context"
	"runtime"
	"time"
)

// spin is a process that keeps its CPU busy, all the time or in bursts.
type spin struct {
	For   time.Duration `json:"for"`             // of each period
	Every time.Duration `json:"every,omitempty"` // 0: without a pause
	Class class         `json:"class,omitempty"`
	// WalkBytes is the size of the memory that it walks through meanwhile, which takes the
	// caches from others.
	WalkBytes int `json:"walk_bytes,omitempty"`
}

// A class is the scheduling class of a spinning thread.
type class string

const (
	usual    class = ""          // by its nice value
	realTime class = "real-time" // before all others
	idling   class = "idle"      // when no other wants to run
)

func (s *spin) play(ctx context.Context, ready func(string)) error {
	runtime.LockOSThread() // and never unlocked: the process ends with it
	if err := schedule(s.Class); err != nil {
		return err
	}
	memory := make([]byte, max(1, s.WalkBytes))
	ready("")
	for ctx.Err() == nil {
		begun := time.Now()
		for ctx.Err() == nil && time.Since(begun) < s.For {
			walk(memory)
		}
		if s.Every > 0 {
			time.Sleep(s.Every - time.Since(begun))
		}
	}
	return nil
}

// walk writes to each cache line (64 bytes) of the memory.
func walk(memory []byte) {
	for i := 0; i < len(memory); i += 64 {
		memory[i]++
	}
}
