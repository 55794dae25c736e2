package main

import (
	"errors"
	"fmt"
	"testing"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// TestUnsupportedIsOneError checks that a caller can ask for errors.ErrUnsupported,
// whichever package reports that something cannot be done.
func TestUnsupportedIsOneError(t *testing.T) {
	for _, err := range []error{host.ErrUnsupported, stack.ErrUnsupported, sockopt.Check("none-such"), fastgrpc.ErrUnsupported} {
		if wrapped := fmt.Errorf("do it: %w", err); !errors.Is(wrapped, errors.ErrUnsupported) {
			t.Errorf("%v is not errors.ErrUnsupported", wrapped)
		}
	}
	if errors.Is(stack.ErrUnsupported, host.ErrUnsupported) {
		t.Error("what a wire cannot do is taken for what this machine cannot do")
	}
}
