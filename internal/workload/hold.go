package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"wirelab.dev/internal/scenario"
)

// Pause lasts as long as it is told, or until the context ends; then it returns
// a status. It is how handlers simulate work that is not the CPU's.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// The options of a Stall.
const (
	stallKey = "stall"
	everyKey = "every"
)

// StallOptions lists what ReadStall reads. A stall is a truth to be found: a
// laboratory that does not see it cannot be trusted with what it sees.
func StallOptions() []scenario.Option {
	return []scenario.Option{
		{Key: stallKey, Default: "0s", Parse: scenario.Time, Help: "TIME: how long the handler sleeps in every Nth request"},
		{Key: everyKey, Default: "100", Parse: scenario.IntBetween(1, 1_000_000_000), Help: "N: which requests stall is for"},
	}
}

// Stall holds up every Nth request of a server. A nil one holds up none. Any
// goroutine may use it.
type Stall struct {
	pause time.Duration
	every uint64
	seen  atomic.Uint64
}

// ReadStall reads a workload's StallOptions.
func ReadStall(o *scenario.Options) *Stall {
	stall := &Stall{pause: scenario.Value[time.Duration](o, stallKey), every: uint64(max(1, scenario.Value[int](o, everyKey)))}
	if stall.pause == 0 {
		if o.Has(everyKey) {
			o.Fail(fmt.Errorf("%s means nothing without %s", everyKey, stallKey))
		}
		return nil
	}
	return stall
}

// Hold holds up the request if it is its turn.
func (s *Stall) Hold(ctx context.Context) error {
	if s == nil || s.seen.Add(1)%s.every != 0 {
		return nil
	}
	return Pause(ctx, s.pause)
}
