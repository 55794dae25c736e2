package stacktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
)

// checkRegistration wants Listen to report what RegisterService cannot.
func checkRegistration(t testing.TB, s Subject) {
	for name, register := range map[string]func(stack.Server){
		"a service registered twice": func(server stack.Server) {
			testpb.RegisterTestServiceServer(server, newService())
			testpb.RegisterTestServiceServer(server, newService())
		},
		"a service that is none": func(server stack.Server) {
			server.RegisterService(&testpb.TestService_ServiceDesc, struct{}{})
		},
	} {
		server, err := s.Stack.NewServer(s.Variant)
		noError(t, "NewServer", err)
		register(server)
		if _, err := server.Listen(bounded(t), "127.0.0.1:0"); err == nil {
			t.Errorf("Listen took %s", name)
		}
		if err := server.Close(); err != nil {
			t.Errorf("Close of a server that never listened: %v", err)
		}
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
	if err := server.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// startCall makes a call that takes so long, and waits until its handler runs.
func startCall(ctx context.Context, r *rig, stub testpb.TestServiceClient, long time.Duration) (ended chan error) {
	r.t.Helper()
	ended = make(chan error, 1)
	go func() {
		_, err := stub.Unary(ctx, &testpb.TestRequest{SleepNs: int64(long)})
		ended <- err
	}()
	r.awaitRunning()
	return ended
}

func checkShutdown(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	ended := startCall(bounded(t), r, stub, 100*time.Millisecond)
	promptly(t, "Shutdown with a short call running", func() {
		if err := r.server.Shutdown(bounded(t)); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	if err := <-ended; err != nil {
		t.Errorf("the call that ran when Shutdown came ended with %v", err)
	}
	r.awaitServe()
	promptly(t, "a call after Shutdown", func() {
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte("late")})
		expectCode(t, err, codes.Unavailable)
	})
	if err := r.server.Close(); err != nil {
		t.Errorf("Close after Shutdown: %v", err)
	}
}

func checkShutdownRunsOut(t testing.TB, s Subject) {
	r := start(t, s)
	ended := startCall(bounded(t), r, r.stub(), forever)
	promptly(t, "Shutdown with an endless call running and 50 ms to go", func() {
		_ = r.server.Shutdown(within(t, 50*time.Millisecond)) // whether this is an error is the stack's choice
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
	if err := r.server.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func checkClientClose(t testing.TB, s Subject) {
	r := start(t, s)
	dialer := &stack.Dialer{}
	client, err := s.Stack.NewClient(bounded(t), s.Variant, s.target(stack.Target{Address: r.address, Dialer: dialer}))
	noError(t, "NewClient", err)
	stub := testpb.NewTestServiceClient(client)
	ended := startCall(bounded(t), r, stub, forever)
	promptly(t, "Close of a client with a call running", func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		expectClosed(t, <-ended)
		_, err := stub.Unary(context.Background(), &testpb.TestRequest{Body: []byte("late")})
		expectClosed(t, err)
	})
	if counts := dialer.Counts(); counts.Open != 0 {
		t.Errorf("a closed client has %d connections open", counts.Open)
	}
}

// expectClosed takes both codes that grpc-go's users meet after Close.
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
		dialer := &stack.Dialer{}
		client := dial(t, s, stack.Target{Address: r.address, Connections: asked, Dialer: dialer})
		stub := testpb.NewTestServiceClient(client)
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				if _, err := stub.Unary(bounded(t), &testpb.TestRequest{SleepNs: int64(time.Millisecond)}); err != nil {
					t.Errorf("Unary: %v", err)
				}
			})
		}
		all.Wait()
		counts := dialer.Counts()
		if s.Lifecycle != stack.Kept {
			expectOnePerCall(t, s, counts, calls)
			continue
		}
		mode := scenario.Connection{Mode: scenario.Pool, Size: max(asked, 1)}
		most := int64(stack.ConnectionOf(s.Stack, s.Variant, mode).Size) // the variant's own figure wins
		if counts.Opened < 1 || counts.Opened > most || counts.Open > counts.Opened || counts.Failed != 0 {
			t.Errorf("asked for %d connections, the client counts %+v", asked, counts)
		}
	}
}

// expectOnePerCall wants a connection for every call, each begun as the
// lifecycle says. The one that a client opens to get its TLS session, or to see
// that there is a server, is not a call's.
func expectOnePerCall(t testing.TB, s Subject, counts stack.ConnectionCounts, calls int64) {
	t.Helper()
	const first = 1
	if counts.Opened < calls || counts.Opened > calls+first || counts.Failed != 0 {
		t.Errorf("%d calls, each with a connection of its own, and the dialer counts %+v", calls, counts)
	}
	switch s.Lifecycle {
	case stack.Fresh:
		if counts.Resumed != 0 || counts.Full != 0 && counts.Full != counts.Opened {
			t.Errorf("fresh connections resumed a session: %+v", counts)
		}
	case stack.Early:
		if counts.Early < calls {
			t.Errorf("%d calls, and early data was taken %d times: %+v", calls, counts.Early, counts)
		}
		fallthrough
	case stack.Resumed:
		if counts.Resumed < calls || counts.Full > first {
			t.Errorf("%d calls, each to resume a session, and the dialer counts %+v", calls, counts)
		}
	}
}
