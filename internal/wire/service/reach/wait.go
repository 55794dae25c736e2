package reach

import (
	"context"
	"fmt"
	"io"
	"time"

	"wirelab.dev/internal/base/failure"
)

// A Waiting repeats calls to a service that may still be starting.
type Waiting struct {
	Until time.Time // the last instant at which a call is repeated
	Notes io.Writer // receives a line when the waiting begins
	begun bool
}

// waitPause is the time between two calls.
const waitPause = 200 * time.Millisecond

// Do calls try until it succeeds or the time is over, and returns its last error. Do repeats a first
// call in any case if its connection was reset, or if it was late within a second: a service that
// resets a share of its connections can be loaded, too, and its first call may take longer than others.
func (w *Waiting) Do(ctx context.Context, try func() error) error {
	for again := false; ; again = true {
		begin := time.Now()
		err := try()
		left, trouble := time.Until(w.Until), ""
		switch class := failure.Of(err); {
		case class == failure.Reset:
			trouble = "the first connection was reset"
		case class == failure.Deadline && time.Since(begin) < time.Second:
			trouble = "the first call was late"
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case !again && left <= 0 && trouble != "":
			fmt.Fprintf(w.Notes, "%s: calling once more\n", trouble)
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
