package stack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
)

func TestErrorsAsFindsTheCause(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	limited, cancelLimited := context.WithTimeout(t.Context(), time.Hour)
	defer cancelLimited()
	reset := fmt.Errorf("read: %w", syscall.ECONNRESET)
	for name, c := range map[string]struct {
		err  error
		code codes.Code
	}{
		"plain":             {stack.Fail(codes.Internal, reset), codes.Internal},
		"while nothing is":  {stack.FailContext(t.Context(), reset), codes.Unavailable},
		"while cancelled":   {stack.FailContext(cancelled, reset), codes.Canceled},
		"a dialer's notice": {stack.FailContext(t.Context(), errors.Join(reset, context.DeadlineExceeded)), codes.DeadlineExceeded},
		"its socket's":      {stack.FailContext(limited, errors.Join(reset, os.ErrDeadlineExceeded)), codes.DeadlineExceeded},
		"a socket's own":    {stack.FailContext(t.Context(), errors.Join(reset, os.ErrDeadlineExceeded)), codes.Unavailable},
		"found afterwards":  {stack.WithCause(status.Error(codes.Unavailable, "gone"), reset), codes.Unavailable},
	} {
		if st, is := status.FromError(c.err); !is || st.Code() != c.code || !errors.Is(c.err, syscall.ECONNRESET) {
			t.Errorf("%s: %v is a status: %v, its code %v; does it wrap its cause? %v", name, c.err, is, st.Code(), errors.Is(c.err, syscall.ECONNRESET))
		}
		if want := status.Convert(c.err).Err().Error(); c.err.Error() != want {
			t.Errorf("%s reads %q, want %q", name, c.err, want)
		}
	}
}
