package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
)

// Pause waits for d. If the context ends before, it returns a status. Handlers
// simulate work with it that does not use the CPU.
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
	StallKey = "stall"
	everyKey = "every"
)

// StallOptions lists the options that ReadStall reads. A stall is a known delay that
// the measurement must find.
func StallOptions() []scenario.Option {
	return []scenario.Option{
		{Key: StallKey, Default: "0s", Parse: scenario.Time, Help: "TIME: how long the handler sleeps in every Nth request"},
		{Key: everyKey, Default: "100", Parse: scenario.IntBetween(1, 1_000_000_000), Help: "N: which requests stall is for"},
	}
}

// Stall delays every Nth request of a server. A nil Stall delays none. Any goroutine
// may use it.
type Stall struct {
	pause time.Duration
	every uint64
	seen  atomic.Uint64
}

// ReadStall reads a workload's StallOptions.
func ReadStall(o *scenario.Options) *Stall {
	stall := &Stall{pause: scenario.Value[time.Duration](o, StallKey), every: uint64(max(1, scenario.Value[int](o, everyKey)))}
	if stall.pause == 0 {
		if o.Has(everyKey) {
			o.Fail(fmt.Errorf("%s has no effect without %s", everyKey, StallKey))
		}
		return nil
	}
	return stall
}

// Hold delays the request if it is its turn.
func (s *Stall) Hold(ctx context.Context) error {
	if s == nil || s.seen.Add(1)%s.every != 0 {
		return nil
	}
	return Pause(ctx, s.pause)
}

// Always returns how long every request is delayed, or 0 if some are not.
func (s *Stall) Always() time.Duration {
	if s == nil || s.every > 1 {
		return 0
	}
	return s.pause
}
