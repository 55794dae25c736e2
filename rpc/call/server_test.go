package rpccall

import (
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"
)

// idleConn is a connection that lives until it is closed or drained.
type idleConn struct {
	nc      net.Conn
	conns   *Conns[*idleConn]
	ended   chan struct{}
	drained bool
}

func (c *idleConn) Start(running *sync.WaitGroup) {
	running.Go(func() {
		<-c.ended
		_ = c.nc.Close()
		c.conns.Remove(c)
	})
}

func (c *idleConn) Close(error) { close(c.ended) }

func (c *idleConn) Drain() {
	c.drained = true
	close(c.ended)
}

// newIdleServer returns a server whose connections do nothing.
func newIdleServer(waitForHandlers bool) (*Server[*idleConn, int], *Conns[*idleConn]) {
	s, conns := new(Server[*idleConn, int]), new(Conns[*idleConn])
	s.Init(ServerConfig[*idleConn]{
		Library: "lib", WaitForHandlers: waitForHandlers,
		Prepare: func(nc net.Conn) net.Conn { return nc },
		NewConn: func(nc net.Conn, _ credentials.AuthInfo, _ time.Duration) *idleConn {
			return &idleConn{nc: nc, conns: conns, ended: make(chan struct{})}
		},
	}, conns)
	return s, conns
}

// TestServerStops checks, for each way to stop a server, that Serve waits for handlers as
// far as the way promises, and that no connection is left.
func TestServerStops(t *testing.T) {
	for name, way := range map[string]struct {
		stop  func(*Server[*idleConn, int])
		setIt bool // WaitForHandlers
		waits bool
	}{
		"Stop":               {stop: (*Server[*idleConn, int]).Stop},
		"Stop that waits":    {stop: (*Server[*idleConn, int]).Stop, setIt: true, waits: true},
		"GracefulStop":       {stop: (*Server[*idleConn, int]).GracefulStop, waits: true},
		"GracefulStop twice": {stop: func(s *Server[*idleConn, int]) { s.GracefulStop(); s.GracefulStop() }, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, conns := newIdleServer(way.setIt)
				gate := make(chan struct{})
				s.Workers.Serve = func(int) { <-gate }
				lis, served := bufconn.Listen(1<<10), make(chan error, 1)
				go func() { served <- s.Serve(lis) }()
				if _, err := lis.Dial(); err != nil {
					t.Fatal(err)
				}
				s.Workers.Push([]int{1})
				synctest.Wait()
				if len(conns.Open) != 1 {
					t.Fatalf("%d connections are open, want 1", len(conns.Open))
				}
				go way.stop(s)
				synctest.Wait()
				select {
				case err := <-served:
					if served <- err; way.waits {
						t.Error("Serve returned while a handler ran")
					}
				default:
					if !way.waits {
						t.Error("Serve waits for a handler")
					}
				}
				close(gate)
				if err := <-served; err != nil || len(conns.Open) != 0 {
					t.Errorf("Serve returned %v, %d connections are left", err, len(conns.Open))
				}
				if err := s.Serve(bufconn.Listen(1)); !errors.Is(err, grpc.ErrServerStopped) {
					t.Errorf("Serve after the stop returned %v", err)
				}
			})
		})
	}
}

// TestRegisterService checks which methods are found, and that a program's mistakes panic.
func TestRegisterService(t *testing.T) {
	s, _ := newIdleServer(false)
	desc := &grpc.ServiceDesc{
		ServiceName: "pkg.Service", HandlerType: (*error)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "One"}}, Streams: []grpc.StreamDesc{{StreamName: "Many", ServerStreams: true}},
	}
	panics := func(text string, impl any) {
		t.Helper()
		defer func() {
			if got, _ := recover().(string); !strings.HasPrefix(got, "lib: RegisterService") || !strings.Contains(got, text) {
				t.Errorf("panicked with %q, want %q in it", got, text)
			}
		}()
		s.RegisterService(desc, impl)
	}
	panics("does not implement", 1)
	s.RegisterService(desc, nil)
	panics("twice", nil)
	if m := s.Lookup("/pkg.Service/One"); m == nil || m.Unary == nil || m.Stream != nil {
		t.Errorf("the unary method is %+v", m)
	}
	if m := s.Lookup("/pkg.Service/Many"); m == nil || m.Unary != nil || !m.Info.IsServerStream || m.Info.IsClientStream {
		t.Errorf("the streaming method is %+v", m)
	}
	for name, want := range map[string]string{
		"pkg.Service/One": "malformed", "/pkg.Service": "malformed", "/pkg.Other/One": "unknown service pkg.Other",
		"/pkg.Service/Two": "unknown method Two for service pkg.Service",
	} {
		if why := s.DescribeUnknown(name); s.Lookup(name) != nil || !strings.HasPrefix(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
	if info := s.GetServiceInfo()["pkg.Service"]; len(info.Methods) != 2 {
		t.Errorf("the service has %d methods, want 2", len(info.Methods))
	}
	if err := s.begin(nil); err != nil {
		t.Error(err)
	}
	panics("after Serve", nil)
}

// A scripted listener returns its errors from Accept in turn, or a connection for nil.
type scripted struct {
	net.Listener
	left []error
}

func (s *scripted) Accept() (net.Conn, error) {
	err := s.left[0]
	s.left = s.left[1:]
	if err != nil {
		return nil, err
	}
	return &net.TCPConn{}, nil
}

// TestAcceptPauses checks that a temporary error is waited out, twice as long each time
// and no longer than a second, and that a connection shortens the pause again.
func TestAcceptPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := syscall.EMFILE
		lis := &scripted{left: []error{full, full, nil, full, nil, net.ErrClosed}}
		var at []time.Duration
		began := time.Now()
		err := Accept(lis, make(chan struct{}), func(net.Conn) { at = append(at, time.Since(began)) })
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("ended with %v, want %v", err, net.ErrClosed)
		}
		if len(at) != 2 || at[0] != 15*time.Millisecond || at[1] != 20*time.Millisecond {
			t.Errorf("accepted after %v, want 15ms and 20ms", at)
		}
		lis.left = nil
		for range 20 {
			lis.left = append(lis.left, full)
		}
		lis.left = append(lis.left, net.ErrClosed)
		began = time.Now()
		_ = Accept(lis, make(chan struct{}), nil)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("20 errors took %v, want less than a second each", took)
		}
	})
}

// TestAcceptStops checks that no error is returned when stopping, in a pause either.
func TestAcceptStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { close(stopping) })
		began := time.Now()
		if err := Accept(&scripted{left: []error{syscall.EMFILE}}, stopping, nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("stopping took %v of a pause of 5ms, want 1ms", took)
		}
		if err := Accept(&scripted{left: []error{net.ErrClosed}}, stopping, nil); err != nil {
			t.Error(err)
		}
	})
}
