package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"wirelab.dev/rpc/batchio"
)

// TestIdleAfterCall checks that MaxConnectionIdle closes a connection that had a call open
// when its time first passed.
func TestIdleAfterCall(t *testing.T) {
	g := gated{entered: make(chan struct{}), gate: make(chan struct{})}
	s := NewServer(KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 20 * time.Millisecond}))
	c := dialFast(t, serveTest(t, s, g))
	done := make(chan error, 1)
	go func() { done <- ping(testContext(t), c) }()
	<-g.entered
	s.set.Mu.Lock()
	conn := s.set.All()[0]
	s.set.Mu.Unlock()
	began := time.Since(batchio.Epoch)
	eventually(t, "for a check while the call is open", func() bool {
		conn.Mu.Lock()
		defer conn.Mu.Unlock()
		return conn.clock.Now > began
	})
	close(g.gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, "for the idle connection to go", func() bool { return len(s.Conns()) == 0 })
}

// TestStopWhileAccepting stops servers while connections come in by all ways.
func TestStopWhileAccepting(t *testing.T) {
	for round := range 300 {
		s := NewServer()
		testgrpc.RegisterTestServiceServer(s, echo{})
		lis := bufconn.Listen(1 << 16)
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				t.Errorf("Serve: %v", err)
			}
		})
		for range 4 {
			all.Go(func() {
				client, server := net.Pipe()
				_ = s.ServeConn(server)
				_ = client.Close()
			})
			all.Go(func() {
				if nc, err := lis.Dial(); err == nil {
					_ = nc.Close()
				}
			})
		}
		stop := s.Stop
		if round%2 == 1 {
			stop = s.GracefulStop
		}
		all.Go(stop)
		all.Go(s.Stop)
		all.Wait()
		if n := len(s.Conns()); n > 0 {
			t.Fatalf("%d connections are left after Stop", n)
		}
	}
}

// TestServeReturns checks what Serve returns, and when, against grpc-go.
func TestServeReturns(t *testing.T) {
	for name, stop := range map[string]func(stopper){"Stop": stopper.Stop, "GracefulStop": stopper.GracefulStop} {
		for _, fast := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s of fastgrpc %v", name, fast), func(t *testing.T) {
				g := gated{entered: make(chan struct{}), gate: make(chan struct{})}
				var s stopper = grpc.NewServer(grpc.WaitForHandlers(true))
				if fast {
					s = NewServer(WaitForHandlers(true))
				}
				testgrpc.RegisterTestServiceServer(s, ignoresContext{g})
				lis, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				served, called, stopped := make(chan error, 1), make(chan error, 1), make(chan struct{})
				go func() { served <- s.Serve(lis) }()
				c := dialFast(t, "passthrough:///"+lis.Addr().String())
				go func() { called <- ping(testContext(t), c) }()
				<-g.entered
				go func() {
					stop(s)
					close(stopped)
				}()
				for dialled := true; dialled; { // until the listener is closed
					nc, err := net.Dial("tcp", lis.Addr().String())
					if dialled = err == nil; dialled {
						_ = nc.Close()
					}
				}
				if name == "Stop" { // which ends connections after that, and calls with them
					if err := <-called; err == nil {
						t.Error("the call ended well while its handler ran")
					}
				}
				runtime.Gosched()
				select {
				case err := <-served:
					t.Errorf("Serve returned %v while a handler ran", err)
				case <-stopped:
					t.Error("stopped while a handler ran")
				default:
				}
				close(g.gate)
				if err := <-served; err != nil {
					t.Errorf("Serve returned %v", err)
				}
				<-stopped
				if name == "GracefulStop" {
					if err := <-called; err != nil {
						t.Errorf("the call ended with %v", err)
					}
				}
				if err := s.Serve(lis); !errors.Is(err, grpc.ErrServerStopped) {
					t.Errorf("Serve after the stop returned %v", err)
				}
			})
		}
	}
}

// A stopper is either library's server.
type stopper interface {
	grpcServer
	GracefulStop()
}

// ignoresContext is a gated service whose calls do not end with their context.
type ignoresContext struct{ gated }

func (s ignoresContext) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return s.gated.EmptyCall(context.Background(), nil)
}

// TestServeFails checks that the listener's own error is returned at once.
func TestServeFails(t *testing.T) {
	lis := bufconn.Listen(1)
	_ = lis.Close()
	for _, s := range []stopper{NewServer(), grpc.NewServer()} {
		if err := s.Serve(lis); err == nil || errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("%T.Serve on a closed listener: %v", s, err)
		}
		s.Stop()
	}
}

// beginsHandshake closes began when the server's handshake begins.
type beginsHandshake struct {
	credentials.TransportCredentials
	began chan struct{}
}

func (c beginsHandshake) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	close(c.began)
	return c.TransportCredentials.ServerHandshake(nc)
}

// TestStopInHandshake checks that a client which says nothing does not delay a stop.
func TestStopInHandshake(t *testing.T) {
	creds, _ := tlsForTests(t)
	for _, stop := range []func(*Server){(*Server).Stop, (*Server).GracefulStop} {
		began := make(chan struct{})
		s := NewServer(Creds(beginsHandshake{creds, began}), ConnectionTimeout(time.Hour))
		lis := bufconn.Listen(1 << 16)
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		nc, err := lis.Dial()
		if err != nil {
			t.Fatal(err)
		}
		<-began
		stop(s)
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = nc.Close()
	}
}

// TestGracefulStopAfterLostConnection checks that neither GracefulStop nor Serve returns
// while the handler of a lost connection runs.
func TestGracefulStopAfterLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated{entered: make(chan struct{}), gate: make(chan struct{})}
		s, lis := NewServer(), bufconn.Listen(1<<16)
		testgrpc.RegisterTestServiceServer(s, ignoresContext{g})
		served, stopped := make(chan error, 1), make(chan struct{})
		go func() { served <- s.Serve(lis) }()
		c := dialFast(t, "passthrough:///unused", WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		go func() { _ = ping(t.Context(), c) }()
		<-g.entered
		_ = c.Close()
		go func() {
			s.GracefulStop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case err := <-served:
			t.Errorf("Serve returned %v while a handler ran", err)
			served <- nil
		case <-stopped:
			t.Error("GracefulStop returned while a handler ran")
		default:
		}
		close(g.gate)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-stopped
	})
}
