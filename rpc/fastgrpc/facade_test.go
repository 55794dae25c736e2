package fastgrpc

import (
	"context"
	"runtime"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestClientConn checks that a grpc.ClientConn makes its calls with the client, has the
// client's state, and closes it.
func TestClientConn(t *testing.T) {
	before := runtime.NumGoroutine()
	server := NewServer()
	c, err := NewClient(serve(t, server), WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	cc := c.ClientConn()
	if cc != c.ClientConn() {
		t.Error("two calls of ClientConn return two connections")
	}
	if got := cc.GetState(); got != connectivity.Idle {
		t.Errorf("the state before the first call is %v, want IDLE", got)
	}
	stub := testgrpc.NewTestServiceClient(cc)
	if _, err := stub.EmptyCall(testContext(t), &testgrpc.Empty{}); err != nil {
		t.Error(err)
	}
	if sizes, err := threeMessages(testContext(t), stub); err != nil || len(sizes) != 3 {
		t.Errorf("a stream received %d messages, want 3: %v", len(sizes), err)
	}
	if got := cc.GetState(); got != connectivity.Ready {
		t.Errorf("the state after a call is %v, want READY", got)
	}
	if n := c.Counters().CallsSucceeded; n != 2 {
		t.Errorf("the client made %d calls, want 2", n)
	}
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	if got := c.GetState(); got != connectivity.Shutdown {
		t.Errorf("the client's state after Close is %v, want SHUTDOWN", got)
	}
	if _, err := stub.EmptyCall(testContext(t), &testgrpc.Empty{}); status.Code(err) != codes.Canceled {
		t.Errorf("a call after Close returns %v, want Canceled", err)
	}
	_ = c.Close()
	server.Stop()
	eventually(t, "for the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestClientConnFollowsTheClient checks Connect and WaitForStateChange, and that the client's
// Close closes the grpc.ClientConn, even if the latter is made afterwards.
func TestClientConnFollowsTheClient(t *testing.T) {
	for _, late := range []bool{false, true} {
		c, err := NewClient(serve(t, NewServer()), WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		if !late {
			cc := c.ClientConn()
			cc.Connect()
			for s := cc.GetState(); s != connectivity.Ready; s = cc.GetState() {
				if !cc.WaitForStateChange(testContext(t), s) {
					t.Fatalf("the state stays %v, want READY", s)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := c.ClientConn().GetState(); got != connectivity.Shutdown {
			t.Errorf("the state after the client's Close is %v, want SHUTDOWN", got)
		}
	}
}

// TestInterceptorsGetAClientConn checks that the interceptors' grpc.ClientConn answers as
// grpc-go's, for targets of all forms.
func TestInterceptorsGetAClientConn(t *testing.T) {
	for _, target := range []string{
		"localhost:1", "localhost", "dns:///localhost:1", "dns://127.0.0.1/x:1", "passthrough:///any", "passthrough:any:1",
		"unix:///tmp/a b", "unix:relative", "unix-abstract:name", "127.0.0.1:1", "[::1]:1", "/path", ":8080", "a:b:c", "",
	} {
		var names []string
		note := func(cc *grpc.ClientConn) {
			names = append(names, cc.Target(), cc.CanonicalTarget(), cc.GetState().String())
		}
		unary := func(_ context.Context, _ string, _, _ any, cc *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			note(cc)
			return nil
		}
		stream := func(_ context.Context, _ *grpc.StreamDesc, cc *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			note(cc)
			return nil, nil
		}
		call := func(c grpcClient, err error) []string {
			names = nil
			if err != nil {
				return []string{"refused"}
			}
			defer func() { _ = c.Close() }()
			_ = c.Invoke(t.Context(), "/x/y", nil, nil)
			_, _ = c.NewStream(t.Context(), &grpc.StreamDesc{}, "/x/y")
			return names
		}
		want := call(grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)))
		got := call(NewClient(target, WithTransportCredentials(insecure.NewCredentials()), WithUnaryInterceptor(unary), WithStreamInterceptor(stream)))
		if len(want) != len(got) {
			t.Errorf("target %q: grpc-go answers %q, fastgrpc %q", target, want, got)
			continue
		}
		for i := range want {
			if want[i] != got[i] {
				t.Errorf("target %q: grpc-go answers %q, fastgrpc %q", target, want, got)
				break
			}
		}
	}
}
