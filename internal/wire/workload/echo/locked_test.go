package echo

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// TestLockedRequestsTakeTurns: three requests at once take at least three times as long as one.
func TestLockedRequestsTakeTurns(t *testing.T) {
	const locked = 5 * time.Millisecond
	h, begin := &handler{locked: locked}, time.Now()
	var calls errgroup.Group
	for range 3 {
		calls.Go(func() error {
			_, err := h.Echo(t.Context(), &echopb.Payload{Data: []byte("x")})
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 3*locked {
		t.Errorf("three requests took %v, want at least %v", took, 3*locked)
	}
}
