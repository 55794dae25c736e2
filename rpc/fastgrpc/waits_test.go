package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// TestWaitForReady checks that without a server a call fails at once with the reason,
// and a call with WaitForReady waits through gRPC's backoff.
func TestWaitForReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		testgrpc.RegisterTestServiceServer(s, echo{})
		began := time.Now()
		var attempts []time.Duration
		c := dialFast(t, "passthrough:///nobody", WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: time.Second, Multiplier: 2, Jitter: 0.2, MaxDelay: 3 * time.Second},
		}), WithContextDialer(func(context.Context, string) (net.Conn, error) {
			attempts = append(attempts, time.Since(began))
			if len(attempts) < 5 {
				return nil, errors.New("nobody is there")
			}
			near, far := net.Pipe()
			go func() { _ = s.ServeConn(far) }()
			return near, nil
		}))
		if err := ping(t.Context(), c); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "nobody is there") {
			t.Errorf("a call that does not wait: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := ping(short, c, grpc.WaitForReady(true)); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "nobody is there") {
			t.Errorf("a call that waits for less than the backoff: %v", err)
		}
		if err := ping(t.Context(), c, grpc.WaitForReady(true)); err != nil {
			t.Errorf("a call that waits: %v", err)
		}
		pause := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}
		for i, want := range pause {
			if got := attempts[i+1] - attempts[i]; got < want*8/10 || got > want*12/10 {
				t.Errorf("pause %d took %v, want %v", i, got, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		s.Stop()
	})
}

// TestResolvesAfterServerLoss checks that the name is resolved again when a server is
// lost, and calls go to the new address.
func TestResolvesAfterServerLoss(t *testing.T) {
	r := manual.NewBuilderWithScheme("moving")
	resolver.Register(r)
	old, oldTarget := startFast(t)
	_, newTarget := startFast(t)
	address := func(target string) resolver.State {
		return resolver.State{Addresses: []resolver.Address{{Addr: strings.TrimPrefix(target, "passthrough:///")}}}
	}
	r.InitialState(address(oldTarget))
	var asked atomic.Int32
	r.ResolveNowCallback = func(resolver.ResolveNowOptions) {
		if asked.Add(1) == 1 {
			go r.UpdateState(address(newTarget))
		}
	}
	c := dialFast(t, "moving:///any")
	if err := ping(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	old.Stop()
	c.WaitForStateChange(testContext(t), connectivity.Ready) // the call below must not meet the old one
	if err := ping(testContext(t), c, grpc.WaitForReady(true)); err != nil {
		t.Errorf("after the server has moved: %v", err)
	}
	if asked.Load() == 0 {
		t.Error("the name was not resolved again")
	}
}

// TestTargetForms checks that all target forms that NewClient documents work.
func TestTargetForms(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	forms := []struct{ network, address, target string }{
		{"tcp", "127.0.0.1:0", "dns:///localhost:%s"},
		{"tcp", "127.0.0.1:0", "dns:localhost:%s"},
		{"tcp", "127.0.0.1:0", "localhost:%s"},
		{"tcp", "127.0.0.1:0", "passthrough:///127.0.0.1:%s"},
		{"tcp", "[::1]:0", "[::1]:%s"},
		{"unix", filepath.Join(dir, "a"), "unix://" + filepath.Join(dir, "a")},
		{"unix", filepath.Join(dir, "b"), "unix:" + filepath.Join(dir, "b")},
		{"unix", "c", "unix:c"},
	}
	if runtime.GOOS == "linux" {
		name := fmt.Sprintf("fastgrpc-%d", time.Now().UnixNano())
		forms = append(forms, struct{ network, address, target string }{"unix", "@" + name, "unix-abstract:" + name})
	}
	for _, f := range forms {
		t.Run(f.target, func(t *testing.T) {
			lis, err := net.Listen(f.network, f.address)
			if err != nil {
				t.Skipf("this machine cannot listen on %s: %v", f.address, err)
			}
			s := NewServer()
			testgrpc.RegisterTestServiceServer(s, echo{})
			go func() { _ = s.Serve(lis) }()
			t.Cleanup(s.Stop)
			target := f.target
			if _, port, err := net.SplitHostPort(lis.Addr().String()); err == nil {
				target = fmt.Sprintf(target, port)
			}
			if err := ping(testContext(t), dialFast(t, target)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHealthWatch checks that watchers of a health service get its changes.
func TestHealthWatch(t *testing.T) {
	s := NewServer()
	checks := health.NewServer()
	healthgrpc.RegisterHealthServer(s, checks)
	c := healthgrpc.NewHealthClient(dialFast(t, serve(t, s)))
	watch, err := c.Watch(testContext(t), &healthgrpc.HealthCheckRequest{Service: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthgrpc.HealthCheckResponse_ServingStatus{
		healthgrpc.HealthCheckResponse_SERVICE_UNKNOWN, healthgrpc.HealthCheckResponse_SERVING, healthgrpc.HealthCheckResponse_NOT_SERVING,
	} {
		if want != healthgrpc.HealthCheckResponse_SERVICE_UNKNOWN {
			checks.SetServingStatus("x", want)
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
}

// TestClientStopsAnswering checks that a server drops a client that does not answer
// pings, and ends its call.
func TestClientStopsAnswering(t *testing.T) {
	s, target := startFast(t, KeepaliveParams(keepalive.ServerParameters{Time: time.Second, Timeout: 50 * time.Millisecond}))
	nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write(inMemory(func(fr *http2.Framer) {
		_ = fr.WriteSettings()
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: requestTo("FullDuplexCall")})
	})); err != nil {
		t.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, nc); err != nil {
		t.Errorf("the server does not close: %v", err)
	}
	eventually(t, "for the call's handler to notice", func() bool { return s.Counters().CallsFailed > 0 })
}

// TestLateHandlersCount checks that a call whose handler outlives its connection is counted.
func TestLateHandlersCount(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	s, target := startFast(t, UnknownServiceHandler(func(any, grpc.ServerStream) error {
		close(began)
		<-release
		return errors.New("late")
	}))
	c := dialFast(t, target)
	ctx := testContext(t)
	if _, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/of.nobody/Call"); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "for the connection to go", func() bool { return len(s.Conns()) == 0 })
	if n := s.Counters(); n.CallsStarted != 1 || n.CallsFailed != 0 {
		t.Errorf("with a handler at work: %+v", n)
	}
	close(release)
	eventually(t, "for the call to be counted", func() bool { return s.Counters().CallsFailed == 1 })
	if n := s.Counters(); n.CallsStarted != 1 || n.BytesIn == 0 {
		t.Errorf("afterwards: %+v", n)
	}
}

// TestIdleServer checks that a server closes idle connections, and that clients
// reconnect for their next call.
func TestIdleServer(t *testing.T) {
	s, target := startFast(t, KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 20 * time.Millisecond}))
	c := dialFast(t, target)
	for range 2 {
		if err := ping(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		eventually(t, "for the idle connection to go", func() bool { return len(s.Conns()) == 0 })
	}
}
