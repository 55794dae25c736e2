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

// checkRegistration expects Listen to report errors that RegisterService cannot return.
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
		noError(t, "NewServer", err)
		register(server)
		if _, err := server.Listen(bounded(t), "127.0.0.1:0"); err == nil {
			t.Errorf("Listen took %s", name)
		}
		expectNoError(t, "Close of a server that never listened", server.Close())
	}
}

func checkAddressTaken(t testing.TB, s Subject) {
	r := start(t, s)
	server, err := s.Stack.NewServer(s.Variant)
	noError(t, "NewServer", err)
	testpb.RegisterTestServiceServer(server, newService())
	if _, err := server.Listen(bounded(t), r.address); err == nil {
		t.Errorf("two servers listen on %s", r.address)
	}
	expectNoError(t, "Close", server.Close())
}

// startCall makes a call that takes the time long, and waits until its handler runs.
func startCall(ctx context.Context, r *rig, stub testpb.TestServiceClient, long time.Duration) (ended chan error) {
	r.t.Helper()
	ended = make(chan error, 1)
	go func() {
		_, err := stub.Unary(ctx, &testpb.TestRequest{SleepNs: int64(long)})
		ended <- err
	}()
	await(r.t, r.service.running, "the call did not reach the handler")
	return ended
}

func checkShutdown(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	ended := startCall(bounded(t), r, stub, 100*time.Millisecond)
	promptly(t, "Shutdown with a short call running", func() {
		expectNoError(t, "Shutdown", r.server.Shutdown(bounded(t)))
	})
	if err := <-ended; err != nil {
		t.Errorf("the call that ran when Shutdown came ended with %v", err)
	}
	r.awaitServe()
	promptly(t, "a call after Shutdown", func() {
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte("late")})
		expectCode(t, err, codes.Unavailable)
	})
	expectNoError(t, "Close after Shutdown", r.server.Close())
}

func checkShutdownRunsOut(t testing.TB, s Subject) {
	r := start(t, s)
	ended := startCall(bounded(t), r, r.stub(), forever)
	promptly(t, "Shutdown with an endless call running and 50 ms to go", func() {
		_ = r.server.Shutdown(within(t, 50*time.Millisecond)) // a stack may return an error or none
		expectCode(t, <-ended, codes.Unavailable)
	})
	r.awaitServe()
	r.awaitEnded()
}

func checkClose(t testing.TB, s Subject) {
	r := start(t, s)
	ended := startCall(bounded(t), r, r.stub(), forever)
	promptly(t, "Close of the server with a call running", func() {
		r.stop()
		expectCode(t, <-ended, codes.Unavailable)
	})
	r.awaitEnded()
	expectNoError(t, "the second Close", r.server.Close())
}

func checkClientClose(t testing.TB, s Subject) {
	r := start(t, s)
	dialer := &conn.Dialer{}
	client, err := s.Stack.NewClient(bounded(t), s.Variant, s.target(stack.Target{Address: r.address, Dialer: dialer}))
	noError(t, "NewClient", err)
	stub := testpb.NewTestServiceClient(client)
	ended := startCall(bounded(t), r, stub, forever)
	promptly(t, "Close of a client with a call running", func() {
		expectNoError(t, "Close", client.Close())
		expectClosed(t, <-ended)
		_, err := stub.Unary(context.Background(), &testpb.TestRequest{Body: []byte("late")})
		expectClosed(t, err)
	})
	if counts := dialer.Counts(); counts.Open != 0 {
		t.Errorf("a closed client has %d connections open", counts.Open)
	}
}

// expectClosed accepts both codes that grpc-go returns after Close.
func expectClosed(t testing.TB, err error) {
	t.Helper()
	if code := status.Code(err); code != codes.Canceled && code != codes.Unavailable {
		t.Errorf("a call on a closed client ended with %v, want Canceled or Unavailable", err)
	}
}

func checkConnections(t testing.TB, s Subject) {
	r := start(t, s)
	const calls = 20
	for _, asked := range []int{0, 1, 4} {
		dialer := &conn.Dialer{}
		client := dial(t, s, stack.Target{Address: r.address, Connections: asked, Dialer: dialer})
		stub := testpb.NewTestServiceClient(client)
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				_, err := stub.Unary(bounded(t), &testpb.TestRequest{SleepNs: int64(time.Millisecond)})
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
		most := int64(stack.ConnectionOf(s.Stack, s.Variant, mode).Size) // the variant's own figure overrides the mode
		if counts.Opened < 1 || counts.Opened > most || counts.Open > counts.Opened || counts.Failed != 0 {
			t.Errorf("asked for %d connections, the client counts %+v", asked, counts)
		}
	}
}

// expectOnePerCall expects one connection per call, each with the lifecycle's handshake. A client
// may open one more, to get its TLS session or to find the server.
func expectOnePerCall(t testing.TB, s Subject, counts conn.Counts, calls int64) {
	t.Helper()
	const first = 1
	if counts.Opened < calls || counts.Opened > calls+first || counts.Failed != 0 {
		t.Errorf("%d calls, each with a connection of its own, and the dialer counts %+v", calls, counts)
	}
	switch s.Lifecycle {
	case conn.Fresh:
		if counts.Resumed != 0 || counts.Full != 0 && counts.Full != counts.Opened {
			t.Errorf("fresh connections resumed a session: %+v", counts)
		}
	case conn.Early:
		if counts.Early < calls {
			t.Errorf("%d calls, and early data was accepted %d times: %+v", calls, counts.Early, counts)
		}
		fallthrough
	case conn.Resumed:
		if counts.Resumed < calls || counts.Full > first {
			t.Errorf("%d calls, each to resume a session, and the dialer counts %+v", calls, counts)
		}
	}
}

// checkFirstByte expects one time to first byte for each call with its own connection, which
// includes the time of the handler.
func checkFirstByte(t testing.TB, s Subject) {
	const calls, slowness = 3, 20 * time.Millisecond
	r := start(t, s)
	dialer := &conn.Dialer{}
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Dialer: dialer}))
	dialer.TakeTimes().Close() // a client may have made a call of its own before it was ready
	begin := time.Now()
	for range calls {
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte("x"), SleepNs: int64(slowness)})
		noError(t, "Unary", err)
	}
	took := time.Since(begin)
	times := dialer.TakeTimes()
	defer times.Close()
	if s.Lifecycle == conn.Kept {
		if times.FirstByte != nil {
			t.Errorf("connections that are kept have %d times to first byte", times.FirstByte.Count())
		}
		return
	}
	if times.FirstByte == nil {
		t.Fatal("no time to first byte")
	}
	seen := latency.NewHistogram(times.FirstByte)
	if seen.Count() != calls || seen.Min() < slowness || seen.Max() > took {
		t.Errorf("%d calls in %v, each at least %v long: %d times to first byte, from %v to %v",
			calls, took, slowness, seen.Count(), seen.Min(), seen.Max())
	}
}

// checkDeadline makes calls whose deadlines pass while the handler runs.
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

// checkLateAnswer gives calls up before their answers come: the next call must not get them. The
// handler delays its answer until then. If a call did not reach it, the next one has more time.
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
