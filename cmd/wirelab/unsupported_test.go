package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// TestOtherSystemsAreRefused checks that commands which need Linux say so at once on another system.
func TestOtherSystemsAreRefused(t *testing.T) {
	for _, c := range []struct {
		line, want string // on Windows
	}{
		{"selftest", "wirelab selftest needs Linux, and this system is windows: use it on a Linux machine"},
		{"selftest --list", ""},
		{"ab a b", "wirelab ab needs Linux"},
		{"compare --probe cpu", "--probe needs Linux"},
		{"compare --link lte", "--link needs Linux"},
		{"compare --link lte --fleet lab", ""},
		{"load -c 4", ""},
	} {
		words := strings.Fields(c.line)
		cmd, rest, err := new(app).root().Find(words)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.line, err)
		}
		err = plan.CheckSystem("windows", cmd.Name(), cmd.Flags().Changed)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: found %v, want %q", c.line, err, c.want)
		}
		if err := plan.CheckSystem("linux", cmd.Name(), cmd.Flags().Changed); err != nil {
			t.Errorf("%s, on Linux: %v", c.line, err)
		}
	}
}

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
