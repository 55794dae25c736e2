package fastgrpc

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/call/wire"
)

// tries counts the attempts of a call and decides, as grpc-go does, whether to make another
// one (gRFC A6): at once if the server did not process the first, otherwise by the service
// config's retry policy.
type tries struct {
	attempts      int  // that have ended
	retries       int  // by the policy
	sincePushback int  // of these, since the server last said when to come back
	transparent   bool // the attempt is made because the server did not process the one before
}

// An attemptEnd describes the end of a failed attempt, which decides whether there is another.
type attemptEnd struct {
	final       bool // there is none: the balancer dropped the call, or too much was sent to send it again
	unprocessed bool
	answered    bool
	pushback    []string // the server's values
}

// read takes the end of an attempt that had a stream and has ended.
func (e *attemptEnd) read(u *clientCall) {
	e.unprocessed, e.answered = u.unprocessed, u.answered
	for _, f := range u.trailer {
		if f.Name == wire.FieldPushback {
			e.pushback = append(e.pushback, f.Value)
		}
	}
}

// next returns the pause before the next attempt, or the call's error if there is none.
func (t *tries) next(info *callInfo, e *attemptEnd, err error) (time.Duration, error) {
	t.attempts++
	t.transparent = false
	switch {
	case e.final || info.on != nil:
		return 0, err
	case e.unprocessed && t.attempts == 1:
		t.transparent = true
		return 0, nil
	case info.noRetry || e.answered || info.retry == nil && e.pushback == nil:
		return 0, err
	}
	pause := time.Duration(-1)
	if len(e.pushback) > 0 {
		ms, bad := strconv.Atoi(e.pushback[0])
		if bad != nil || ms < 0 || len(e.pushback) > 1 {
			info.throttle.Failed()
			return 0, err
		}
		pause = time.Duration(ms) * time.Millisecond
	}
	policy := info.retry
	switch {
	case policy == nil || !slices.Contains(policy.RetryableStatusCodes, status.Code(err)) || info.throttle.Failed():
		return 0, err
	case t.retries+1 >= policy.MaxAttempts:
		return 0, fmt.Errorf("max retries exhausted: failed after %d attempts: %w", t.retries+1, err)
	case pause >= 0:
		t.sincePushback = 0
	default:
		pause = policy.Backoff(t.sincePushback)
		t.sincePushback++
	}
	t.retries++
	return pause, nil
}
