package chanpool_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/chanpool"
	"wirelab.dev/rpc/creditrpc"
	"wirelab.dev/rpc/fastgrpc"
)

// libraries lists the libraries whose channels a pool can have.
var libraries = []struct {
	name  string
	serve func(net.Listener, testgrpc.TestServiceServer) (stop func())
	dial  func(address string) (chanpool.Channel, error)
}{
	{"grpc-go", func(lis net.Listener, impl testgrpc.TestServiceServer) func() {
		s := grpc.NewServer()
		testgrpc.RegisterTestServiceServer(s, impl)
		go func() { _ = s.Serve(lis) }() // ends with Stop
		return s.Stop
	}, func(address string) (chanpool.Channel, error) {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}},
	{"fastgrpc", func(lis net.Listener, impl testgrpc.TestServiceServer) func() {
		s := fastgrpc.NewServer()
		testgrpc.RegisterTestServiceServer(s, impl)
		go func() { _ = s.Serve(lis) }() // ends with Stop
		return s.Stop
	}, func(address string) (chanpool.Channel, error) {
		return fastgrpc.NewClient(address, fastgrpc.WithTransportCredentials(insecure.NewCredentials()))
	}},
	{"creditrpc", func(lis net.Listener, impl testgrpc.TestServiceServer) func() {
		s := creditrpc.NewServer()
		testgrpc.RegisterTestServiceServer(s, impl)
		go func() { _ = s.Serve(lis) }() // ends with Stop
		return s.Stop
	}, func(address string) (chanpool.Channel, error) {
		return creditrpc.NewClient(address)
	}},
}

// counted counts how often each call, named by its body, was made.
type counted struct {
	testgrpc.UnimplementedTestServiceServer
	made [cutCalls]atomic.Int64
}

const cutCalls = 3000

func (c *counted) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if n, err := strconv.Atoi(string(in.GetPayload().GetBody())); err == nil && n >= 0 {
		c.made[n].Add(1)
	}
	return new(testgrpc.SimpleResponse), nil
}

// cutting is a listener whose connections a test can reset.
type cutting struct {
	net.Listener
	mu   sync.Mutex
	open []*net.TCPConn
}

func (c *cutting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, conn.(*net.TCPConn))
		c.mu.Unlock()
	}
	return conn, err
}

// cut resets the connection that has been open for longest.
func (c *cutting) cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		return false
	}
	_ = c.open[0].SetLinger(0) // a reset in place of an orderly end
	_ = c.open[0].Close()
	c.open = c.open[1:]
	return true
}

// Connections are reset again and again while calls go on and the pool tries sizes. Every call
// ends, well or with Unavailable; none is made twice, and one that ended well was made; and
// after the resets all calls end well.
func TestConnectionsThatAreCut(t *testing.T) {
	for _, library := range libraries {
		t.Run(library.name, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			cutter, impl := &cutting{Listener: lis}, new(counted)
			t.Cleanup(library.serve(cutter, impl))
			pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) { return library.dial(lis.Addr().String()) }, chanpool.Min(2), chanpool.Max(6), chanpool.Epoch(time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pool.Close() })
			client := testgrpc.NewTestServiceClient(pool)
			call := func(n int, opts ...grpc.CallOption) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte(strconv.Itoa(n))}}, opts...)
				return err
			}
			var next, well, failed, cuts atomic.Int64
			var callers sync.WaitGroup
			for range 10 {
				callers.Go(func() {
					for n := next.Add(1) - 1; n < cutCalls; n = next.Add(1) - 1 {
						switch err := call(int(n), grpc.WaitForReady(true)); {
						case err == nil:
							well.Add(1)
							if made := impl.made[n].Load(); made != 1 {
								t.Errorf("call %d ended well, and was made %d times", n, made)
							}
						case status.Code(err) == codes.Unavailable:
							failed.Add(1)
							if made := impl.made[n].Load(); made > 1 {
								t.Errorf("call %d was made %d times", n, made)
							}
						default:
							t.Errorf("call %d: %v", n, err)
						}
						if n%100 == 50 && cutter.cut() {
							cuts.Add(1)
						}
					}
				})
			}
			callers.Wait()
			t.Logf("%d calls ended well, %d were lost with %d connections", well.Load(), failed.Load(), cuts.Load())
			if well.Load() == 0 || cuts.Load() == 0 {
				t.Error("nothing was tried")
			}
			for inARow, tries := 0, 0; inARow < 100; tries++ { // a client may not know of the last cut yet
				if err := call(-1, grpc.WaitForReady(true)); err == nil {
					inARow++
				} else if inARow = 0; tries > 1000 {
					t.Fatalf("long after the last cut: %v", err)
				}
			}
			if state := pool.State(); state.InFlight != 0 {
				t.Errorf("%d calls are in flight", state.InFlight)
			}
		})
	}
}
