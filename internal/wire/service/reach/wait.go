package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// A Waiting repeats calls to a service that may still be starting.
type Waiting struct {
	Until time.Time // the last instant at which a call is repeated
	Notes io.Writer // receives a line when the waiting begins
	begun bool
}

// waitPause is the time between two calls.
const waitPause = 200 * time.Millisecond

// Do calls try until it succeeds or the time is over, and returns its last error. A first call whose
// connection was reset is repeated in any case: a service that resets a share of its connections can
// be loaded, too.
func (w *Waiting) Do(ctx context.Context, try func() error) error {
	for again := false; ; again = true {
		err := try()
		left := time.Until(w.Until)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case !again && left <= 0 && errors.Is(err, syscall.ECONNRESET):
			fmt.Fprintf(w.Notes, "the first connection was reset: calling once more\n")
		case left <= 0:
			return err
		case !w.begun:
			w.begun = true
			fmt.Fprintf(w.Notes, "waiting for the service, up to %v: %v\n", left.Round(100*time.Millisecond), err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(waitPause, max(left, 0))):
		}
	}
}
