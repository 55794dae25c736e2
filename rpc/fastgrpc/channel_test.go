package fastgrpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// TestBlackHole checks that the second address is tried 250 ms after the first, if that
// neither accepts nor refuses, and that Close does not wait for a dialer that hangs.
func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		testgrpc.RegisterTestServiceServer(s, echo{})
		hole := make(chan struct{})
		r := manual.NewBuilderWithScheme("test")
		r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "hole"}, {Addr: "server"}}})
		log := new(attemptLog)
		c := dialFast(t, "test:///any", WithResolvers(r), WithStatsHandler(log), WithContextDialer(func(_ context.Context, addr string) (net.Conn, error) {
			if addr == "hole" {
				<-hole // whatever the context says
				return nil, errors.New("gone")
			}
			near, far := net.Pipe()
			go func() { _ = s.ServeConn(far) }()
			return near, nil
		}))
		began := time.Now()
		if err := ping(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("connected after %v, want 250ms", took)
		}
		if !slices.Contains(log.events, "delayed pick") {
			t.Errorf("the stats handler got %q", log.events)
		}
		began = time.Now()
		if err := c.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		close(hole)
		s.Stop()
	})
}

// TestResetConnectBackoff checks that a client need not wait for its next attempt.
func TestResetConnectBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		testgrpc.RegisterTestServiceServer(s, echo{})
		var up atomic.Bool
		c := dialFast(t, "passthrough:///any", WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if !up.Load() {
				return nil, errors.New("down")
			}
			near, far := net.Pipe()
			go func() { _ = s.ServeConn(far) }()
			return near, nil
		}))
		if err := ping(t.Context(), c); status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		up.Store(true)
		began := time.Now()
		c.ResetConnectBackoff()
		if err := ping(t.Context(), c, grpc.WaitForReady(true)); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = c.Close()
		s.Stop()
	})
}

// TestIdleMode checks that an idle client has no resolver, balancer and connections, and
// that a call which takes longer than the timeout keeps it from there.
func TestIdleMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		g := gated{entered: make(chan struct{}, 1), gate: make(chan struct{})}
		testgrpc.RegisterTestServiceServer(s, g)
		r := manual.NewBuilderWithScheme("test")
		r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "server"}}})
		var built, closed atomic.Int32
		r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { built.Add(1) }
		r.CloseCallback = func() { closed.Add(1) }
		c := dialFast(t, "test:///any", WithResolvers(r), WithIdleTimeout(time.Minute), WithContextDialer(func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _ = s.ServeConn(far) }()
			return near, nil
		}))
		if built.Load() != 0 || c.GetState() != connectivity.Idle {
			t.Errorf("a new client is %v and has built %d resolvers", c.GetState(), built.Load())
		}
		go func() {
			<-g.entered
			time.Sleep(10 * time.Minute)
			close(g.gate)
		}()
		if err := ping(t.Context(), c); err != nil { // for ten minutes
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if c.GetState() != connectivity.Ready || closed.Load() != 0 {
			t.Errorf("after 59 s the client is %v", c.GetState())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if c.GetState() != connectivity.Idle || closed.Load() != 1 || len(c.Conns()) != 0 {
			t.Errorf("an idle client is %v, has closed %d resolvers and has %d connections", c.GetState(), closed.Load(), len(c.Conns()))
		}
		<-time.After(time.Hour)
		if err := testgrpcUnary(t.Context(), c); err != nil || built.Load() != 2 {
			t.Errorf("a call of an idle client: %v, with %d resolvers built", err, built.Load())
		}
		_ = c.Close()
		s.Stop()
	})
}

func testgrpcUnary(ctx context.Context, c grpc.ClientConnInterface, opts ...grpc.CallOption) error {
	_, err := testgrpc.NewTestServiceClient(c).UnaryCall(ctx, request(nil), opts...)
	return err
}
