package stacktest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// checkRegistration checks that Listen reports registration errors. RegisterService cannot report
// an error.
func checkRegistration(t testing.TB, s Subject) {
	for name, register := range map[string]func(stack.Server){
		"a service registered twice": func(server stack.Server) {
			testpb.RegisterTestServiceServer(server, newService())
			testpb.RegisterTestServiceServer(server, newService())
		},
		"a service without its methods": func(server stack.Server) {
			server.RegisterService(&testpb.TestService_ServiceDesc, struct{}{})
		},
	} {
		server, err := s.Stack.NewServer(s.Variant)
		requireNoError(t, "NewServer", err)
		register(server)
		if _, err := server.Listen(checkContext(t), "127.0.0.1:0"); err == nil {
			t.Errorf("Listen accepted %s", name)
		}
		expectNoError(t, "Close of a server that never listened", server.Close())
	}
}

func checkAddressTaken(t testing.TB, s Subject) {
	r := startService(t, s)
	server, err := s.Stack.NewServer(s.Variant)
	requireNoError(t, "NewServer", err)
	testpb.RegisterTestServiceServer(server, newService())
	if _, err := server.Listen(checkContext(t), r.address); err == nil {
		t.Errorf("two servers listen on %s", r.address)
	}
	expectNoError(t, "Close", server.Close())
}

// startCall starts a call of the duration long, and waits until its handler runs.
func startCall(ctx context.Context, r *rig, stub testpb.TestServiceClient, long time.Duration) (ended chan error) {
	r.t.Helper()
	ended = make(chan error, 1)
	go func() {
		_, err := stub.Unary(ctx, &testpb.TestRequest{SleepNs: int64(long)})
		ended <- err
	}()
	receiveOrFail(r.t, r.service.running, "the call did not reach the handler")
	return ended
}

func checkShutdown(t testing.TB, s Subject) {
	r := startService(t, s)
	stub := r.stub()
	ended := startCall(checkContext(t), r, stub, 100*time.Millisecond)
	expectPrompt(t, "Shutdown with a short call running", func() {
		expectNoError(t, "Shutdown", r.server.Shutdown(checkContext(t)))
	})
	if err := <-ended; err != nil {
		t.Errorf("the call that ran during Shutdown ended with %v", err)
	}
	r.awaitServe()
	expectPrompt(t, "a call after Shutdown", func() {
		_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: []byte("late")})
		expectCode(t, err, codes.Unavailable)
	})
	expectNoError(t, "Close after Shutdown", r.server.Close())
}

func checkShutdownRunsOut(t testing.TB, s Subject) {
	r := startService(t, s)
	ended := startCall(checkContext(t), r, r.stub(), longerThanAnyWait)
	expectPrompt(t, "Shutdown with an endless call running and 50 ms to go", func() {
		_ = r.server.Shutdown(timeoutContext(t, 50*time.Millisecond)) // both an error and nil are allowed
		expectCode(t, <-ended, codes.Unavailable)
	})
	r.awaitServe()
	r.awaitEnded()
}

func checkClose(t testing.TB, s Subject) {
	r := startService(t, s)
	ended := startCall(checkContext(t), r, r.stub(), longerThanAnyWait)
	expectPrompt(t, "Close of the server with a call running", func() {
		r.stop()
		expectCode(t, <-ended, codes.Unavailable)
	})
	r.awaitEnded()
	expectNoError(t, "the second Close", r.server.Close())
}

func checkClientClose(t testing.TB, s Subject) {
	r := startService(t, s)
	dialer := &conn.Dialer{}
	client, err := s.Stack.NewClient(checkContext(t), s.Variant, s.target(stack.Target{Address: r.address, Dialer: dialer}))
	requireNoError(t, "NewClient", err)
	stub := testpb.NewTestServiceClient(client)
	ended := startCall(checkContext(t), r, stub, longerThanAnyWait)
	expectPrompt(t, "Close of a client with a call running", func() {
		expectNoError(t, "Close", client.Close())
		expectClosed(t, <-ended)
		_, err := stub.Unary(context.Background(), &testpb.TestRequest{Body: []byte("late")})
		expectClosed(t, err)
	})
	if counts := dialer.Counts(); counts.Open != 0 {
		t.Errorf("a closed client has %d connections open", counts.Open)
	}
}

// expectClosed checks for one of the two codes that grpc-go returns after Close.
func expectClosed(t testing.TB, err error) {
	t.Helper()
	if code := status.Code(err); code != codes.Canceled && code != codes.Unavailable {
		t.Errorf("a call on a closed client ended with %v, want Canceled or Unavailable", err)
	}
}

func checkConnections(t testing.TB, s Subject) {
	r := startService(t, s)
	const calls = 20
	for _, asked := range []int{0, 1, 4} {
		dialer := &conn.Dialer{}
		client := dial(t, s, stack.Target{Address: r.address, Connections: asked, Dialer: dialer})
		stub := testpb.NewTestServiceClient(client)
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				_, err := stub.Unary(checkContext(t), &testpb.TestRequest{SleepNs: int64(time.Millisecond)})
				expectNoError(t, "Unary", err)
			})
		}
		all.Wait()
		counts := dialer.Counts()
		if s.Lifecycle != conn.Kept {
			expectOnePerCall(t, s, counts, calls)
			continue
		}
		mode := scenario.Connection{Mode: scenario.Pool, Size: max(asked, 1)}
		most := int64(stack.ConnectionOf(s.Stack, s.Variant, mode).Size) // an option may set another size
		if counts.Opened < 1 || counts.Opened > most || counts.Open > counts.Opened || counts.Failed != 0 {
			t.Errorf("want %d connections, but the client counts %+v", asked, counts)
		}
	}
}

// expectOnePerCall checks that each call had its own connection with the lifecycle's kind of
// handshake. A client may open one more connection, to get a TLS session or to find the server.
func expectOnePerCall(t testing.TB, s Subject, counts conn.Counts, calls int64) {
	t.Helper()
	const first = 1
	if counts.Opened < calls || counts.Opened > calls+first || counts.Failed != 0 {
		t.Errorf("%d calls, each with its own connection, but the dialer counts %+v", calls, counts)
	}
	switch s.Lifecycle {
	case conn.Fresh:
		if counts.Resumed != 0 || counts.Full != 0 && counts.Full != counts.Opened {
			t.Errorf("fresh connections resumed a session: %+v", counts)
		}
	case conn.Early:
		if counts.Early < calls {
			t.Errorf("%d calls, but early data was accepted %d times: %+v", calls, counts.Early, counts)
		}
		fallthrough
	case conn.Resumed:
		if counts.Resumed < calls || counts.Full > first {
			t.Errorf("%d calls, each to resume a session, but the dialer counts %+v", calls, counts)
		}
	}
}

// checkFirstByte checks the times to first byte. If each call opens its own connection, each call
// records exactly one such time, which includes the handler's time.
func checkFirstByte(t testing.TB, s Subject) {
	const calls, slowness = 3, 20 * time.Millisecond
	r := startService(t, s)
	dialer := &conn.Dialer{}
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Dialer: dialer}))
	dialer.TakeTimes().Close() // ignore the times of calls that the client made while it started
	begin := time.Now()
	for range calls {
		_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: []byte("x"), SleepNs: int64(slowness)})
		requireNoError(t, "Unary", err)
	}
	took := time.Since(begin)
	times := dialer.TakeTimes()
	defer times.Close()
	if s.Lifecycle == conn.Kept {
		if times.FirstByte != nil {
			t.Errorf("calls on kept connections recorded %d times to first byte, want none", times.FirstByte.Count())
		}
		return
	}
	if times.FirstByte == nil {
		t.Fatal("the dialer recorded no time to first byte")
	}
	seen := latency.NewHistogram(times.FirstByte)
	if seen.Count() != calls || seen.Min() < slowness || seen.Max() > took {
		t.Errorf("%d calls in %v, each at least %v long: %d times to first byte, from %v to %v",
			calls, took, slowness, seen.Count(), seen.Min(), seen.Max())
	}
}

// checkDeadline makes calls with deadlines that pass while the handler runs.
func checkDeadline(t testing.TB, s Subject) {
	r := startService(t, s)
	stub := r.stub()
	withMoreTime(t, 50*time.Millisecond, func(limit time.Duration) (reached bool) {
		expectPrompt(t, fmt.Sprintf("a call with a deadline of %v", limit), func() {
			_, err := stub.Unary(timeoutContext(t, limit), &testpb.TestRequest{SleepNs: int64(longerThanAnyWait)})
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
	r := startService(t, s)
	left := make(chan time.Duration, 1)
	r.service.setUnaryHandler(func(ctx context.Context, _ *testpb.TestRequest) (*testpb.TestResponse, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			deadline = time.Now()
		}
		left <- time.Until(deadline)
		return &testpb.TestResponse{}, nil
	})
	_, err := r.stub().Unary(timeoutContext(t, time.Hour), &testpb.TestRequest{Body: []byte("x")})
	requireNoError(t, "a call with a deadline of an hour", err)
	got := <-left
	if arrived := got > 50*time.Minute && got <= time.Hour; arrived == without {
		t.Errorf("the handler of a call with a deadline of an hour had %v left; the stack declares that it lacks deadlines: %v", got, without)
	}
}

func checkCancel(t testing.TB, s Subject) {
	r := startService(t, s)
	stub := r.stub()
	ctx, cancel := context.WithCancel(checkContext(t))
	ended := startCall(ctx, r, stub, longerThanAnyWait)
	expectPrompt(t, "cancelling a call", func() {
		cancel()
		expectCode(t, <-ended, codes.Canceled)
	})
	if !s.lacks(t, Cancellation) {
		r.awaitEnded()
	}
	expectRecovery(t, stub)
}

func checkEndedBefore(t testing.TB, s Subject) {
	r := startService(t, s)
	stub := r.stub()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := stub.Unary(cancelled, &testpb.TestRequest{SleepNs: int64(longerThanAnyWait)})
	expectCode(t, err, codes.Canceled)
	_, err = stub.Unary(timeoutContext(t, -time.Second), &testpb.TestRequest{SleepNs: int64(longerThanAnyWait)})
	expectCode(t, err, codes.DeadlineExceeded)
	expectEcho(t, stub, "after")
}

// checkLateAnswer cancels calls before their answers come. The next call must not get the answer to
// a cancelled call. If a call did not reach the handler in time, the next call gets more time.
func checkLateAnswer(t testing.TB, s Subject) {
	const answers = 3
	r := startService(t, s)
	var (
		held atomic.Int64
		gate atomic.Pointer[chan struct{}]
	)
	r.service.setUnaryHandler(func(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
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
			_, err := stub.Unary(timeoutContext(t, limit), &testpb.TestRequest{Body: []byte("late")})
			expectCode(t, err, codes.DeadlineExceeded)
			close(given)
			expectEcho(t, stub, "mine")
			return held.Load() > before
		})
	}
	expectEcho(t, stub, "mine")
}
