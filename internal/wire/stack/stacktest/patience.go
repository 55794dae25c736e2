package stacktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// patience bounds whatever a check waits for. Only a failing check comes near it;
// it is long because a starved machine must not fail a good stack.
const patience = 2 * time.Minute

// forever is longer than any check waits, and no longer, for the sake of a
// stack that really waits for it.
const forever = 2 * patience

// patienceOf is patience, or less where the test knows that the stack is broken.
func patienceOf(t testing.TB) time.Duration {
	if impatient, is := t.(interface{ patience() time.Duration }); is {
		return impatient.patience()
	}
	return patience
}

// checkDeadline has deadlines that pass while the handler runs.
func checkDeadline(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	withMoreTime(t, 50*time.Millisecond, func(limit time.Duration) (reached bool) {
		promptly(t, fmt.Sprintf("a call with a deadline of %v", limit), func() {
			_, err := stub.Unary(within(t, limit), &testpb.TestRequest{SleepNs: int64(forever)})
			expectCode(t, err, codes.DeadlineExceeded)
		})
		return len(r.service.running) > 0
	})
	if !s.lacks(t, Cancellation) || s.Lacks[Deadlines] == "" {
		r.awaitEnded()
	}
	expectRecovery(t, stub)
}

func checkDeadlineOnTheWire(t testing.TB, s Subject) {
	without := s.lacks(t, Deadlines)
	r := start(t, s)
	left := make(chan time.Duration, 1)
	r.service.answerWith(func(ctx context.Context, _ *testpb.TestRequest) (*testpb.TestResponse, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			deadline = time.Now()
		}
		left <- time.Until(deadline)
		return &testpb.TestResponse{}, nil
	})
	_, err := r.stub().Unary(within(t, time.Hour), &testpb.TestRequest{Body: []byte("x")})
	noError(t, "a call with a deadline of an hour", err)
	got := <-left
	if arrived := got > 50*time.Minute && got <= time.Hour; arrived == without {
		t.Errorf("the handler of a call with a deadline of an hour had %v left; is the wire said to lack deadlines? %v", got, without)
	}
}

func checkCancel(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	ctx, cancel := context.WithCancel(bounded(t))
	ended := startCall(ctx, r, stub, forever)
	promptly(t, "cancelling a call", func() {
		cancel()
		expectCode(t, <-ended, codes.Canceled)
	})
	if !s.lacks(t, Cancellation) {
		r.awaitEnded()
	}
	expectRecovery(t, stub)
}

func checkEndedBefore(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := stub.Unary(cancelled, &testpb.TestRequest{SleepNs: int64(forever)})
	expectCode(t, err, codes.Canceled)
	_, err = stub.Unary(within(t, -time.Second), &testpb.TestRequest{SleepNs: int64(forever)})
	expectCode(t, err, codes.DeadlineExceeded)
	expectEcho(t, stub, "after")
}

// checkLateAnswer gives calls up before their answers come. A client that reads
// on where it left off would hand such an answer to the next call. The handler
// holds its answer back until the caller has given up; a caller that did so
// before its call had reached the handler tries again with more time.
func checkLateAnswer(t testing.TB, s Subject) {
	const answers = 3
	r := start(t, s)
	var (
		held atomic.Int64
		gate atomic.Pointer[chan struct{}]
	)
	r.service.answerWith(func(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if string(in.Body) == "late" {
			held.Add(1)
			<-*gate.Load()
		}
		return &testpb.TestResponse{Body: in.Body}, nil
	})
	stub := r.stub()
	for held.Load() < answers {
		withMoreTime(t, 10*time.Millisecond, func(limit time.Duration) (reached bool) {
			before, given := held.Load(), make(chan struct{})
			gate.Store(&given)
			_, err := stub.Unary(within(t, limit), &testpb.TestRequest{Body: []byte("late")})
			expectCode(t, err, codes.DeadlineExceeded)
			close(given)
			expectEcho(t, stub, "mine")
			return held.Load() > before
		})
	}
	expectEcho(t, stub, "mine")
}
