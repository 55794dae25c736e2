package stacktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
)

// forever is longer than any check waits, and no longer, for the sake of a
// stack that really waits for it.
const forever = 2 * patience

func checkDeadline(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	limit := 50 * time.Millisecond
	if s.Lifecycle != stack.Kept {
		limit *= 10 // a busy machine may take that long to open a connection
	}
	promptly(t, fmt.Sprintf("a call with a deadline of %v", limit), func() {
		_, err := stub.Unary(within(t, limit), &testpb.TestRequest{SleepNs: int64(forever)})
		expectCode(t, err, codes.DeadlineExceeded)
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
	if _, err := r.stub().Unary(within(t, time.Minute), &testpb.TestRequest{Body: []byte("x")}); err != nil {
		t.Fatalf("a call with a deadline of a minute: %v", err)
	}
	got := <-left
	if arrived := got > 50*time.Second && got <= time.Minute; arrived == without {
		t.Errorf("the handler of a call with a deadline of a minute had %v left; is the wire said to lack deadlines? %v", got, without)
	}
}

func checkCancel(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	ctx, cancel := context.WithCancel(bounded(t))
	ended := make(chan error, 1)
	go func() {
		_, err := stub.Unary(ctx, &testpb.TestRequest{SleepNs: int64(forever)})
		ended <- err
	}()
	r.awaitRunning()
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
// on where it left off would hand such an answer to the next call.
func checkLateAnswer(t testing.TB, s Subject) {
	const short, late = 10 * time.Millisecond, 100 * time.Millisecond // far enough apart for a busy machine
	stub := start(t, s).stub()
	for range 3 {
		_, err := stub.Unary(within(t, short), &testpb.TestRequest{Body: []byte("late"), SleepNs: int64(late)})
		expectCode(t, err, codes.DeadlineExceeded)
		expectEcho(t, stub, "mine")
	}
	time.Sleep(late) // the last answer has come by now, if it ever does
	expectEcho(t, stub, "mine")
}
