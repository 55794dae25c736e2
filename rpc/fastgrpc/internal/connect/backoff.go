package connect

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/backoff"
)

// Backoff returns gRPC's connection backoff (grpc/doc/connection-backoff.md):
// exponential, bounded, with jitter.
func Backoff(b *backoff.Config, failures int) time.Duration {
	if failures == 0 {
		return b.BaseDelay
	}
	d, most := float64(b.BaseDelay), float64(b.MaxDelay)
	for ; failures > 0 && d < most; failures-- {
		d *= b.Multiplier
	}
	d = min(d, most)
	d *= 1 + b.Jitter*(2*rand.Float64()-1)
	return time.Duration(max(d, 0))
}

// Sleep waits, and reports whether all of d passed before ctx or now ended it.
func Sleep(ctx context.Context, d time.Duration, now <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-now:
	case <-ctx.Done():
	}
	return false
}
