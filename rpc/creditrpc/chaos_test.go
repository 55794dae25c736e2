package creditrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
)

// ledger counts how often each call, which has a number of its own, was made.
type ledger struct {
	testgrpc.UnimplementedTestServiceServer
	made []atomic.Int32
}

func (l *ledger) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	body := in.GetPayload().GetBody()
	l.made[binary.BigEndian.Uint32(body)].Add(1)
	return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: body}}, nil
}

func (l *ledger) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	return new(service).FullDuplexCall(stream)
}

// fragile is a connection that breaks once left bytes have passed.
type fragile struct {
	net.Conn
	left atomic.Int64
}

func (f *fragile) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.left.Add(-int64(n)) < 0 {
		_ = f.Close()
		return 0, errors.New("cut")
	}
	return n, err
}

// TestChaos makes calls of all kinds while callers give up, connections break and servers are
// replaced. Each call ends; who got an answer was served exactly once and got their own; nobody
// was served twice; no buffer and no goroutine is left.
func TestChaos(t *testing.T) {
	const callers, each = 30, 40
	goroutines := runtime.NumGoroutine()
	var buffers atomic.Int64
	batchio.CountBuffers(&buffers)
	defer batchio.CountBuffers(nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	book := &ledger{made: make([]atomic.Int32, callers*each)}

	var mu sync.Mutex
	var server *Server
	var address string
	replace := func(gracefully bool) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		next := NewServer(MaxCalls(7), Window(1))
		testgrpc.RegisterTestServiceServer(next, book)
		go func() { _ = next.Serve(lis) }() // ends with Stop
		mu.Lock()
		old := server
		server, address = next, lis.Addr().String()
		mu.Unlock()
		switch {
		case old == nil:
		case gracefully:
			old.GracefulStop()
		default:
			old.Stop()
		}
	}
	replace(true)
	breaks := rand.New(rand.NewPCG(seed, 0))
	client := dial(t, "127.0.0.1:1", WithBackoff(time.Millisecond), WithDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		mu.Lock()
		at, after := address, breaks.Int64N(400_000)
		mu.Unlock()
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err != nil {
			return nil, err
		}
		f := &fragile{Conn: nc}
		f.left.Store(1000 + after)
		return f, nil
	}))
	done := make(chan struct{})
	var replacer sync.WaitGroup
	replacer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				replace(n%2 == 0)
			}
		}
	})
	stub := testgrpc.NewTestServiceClient(client)
	var answered [callers * each]bool
	var all sync.WaitGroup
	for caller := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(caller)+1))
		all.Go(func() {
			for i := range each {
				number := caller*each + i
				body := make([]byte, 4+[]int{0, 60, 5000, 70_000}[random.IntN(4)])
				binary.BigEndian.PutUint32(body, uint32(number))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if random.IntN(5) == 0 {
					time.AfterFunc(time.Duration(random.Int64N(int64(time.Millisecond))), cancel)
				}
				if random.IntN(6) == 0 {
					chat(ctx, stub, body)
				} else if reply, err := stub.UnaryCall(ctx, request(body)); err == nil {
					answered[number] = true
					if !bytes.Equal(reply.GetPayload().GetBody(), body) {
						t.Errorf("call %d got another's answer", number)
					}
				} else if c := status.Code(err); c != codes.Unavailable && c != codes.Canceled {
					t.Errorf("call %d: %v", number, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	close(done)
	replacer.Wait()
	_ = client.Close()
	server.GracefulStop()
	for number := range answered {
		if n := book.made[number].Load(); n > 1 || answered[number] && n != 1 {
			t.Errorf("call %d was made %d times, answered: %v", number, n, answered[number])
		}
	}
	waitFor(t, "all buffers are released", func() bool { return buffers.Load() == 0 })
	waitFor(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// chat makes a stream, and does not mind how it ends.
func chat(ctx context.Context, stub testgrpc.TestServiceClient, body []byte) {
	s, err := stub.FullDuplexCall(ctx)
	if err != nil {
		return
	}
	for range 3 {
		if s.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: body}}) != nil {
			break
		}
		if _, err := s.Recv(); err != nil {
			return
		}
	}
	_ = s.CloseSend()
	for {
		if _, err := s.Recv(); err != nil {
			return
		}
	}
}

// waitFor waits until so returns true. Only a failing test waits long.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestEveryCut breaks the connection after each byte that the client reads, and after each that
// it writes. The call ends with a status, whichever it is, and the next one succeeds.
func TestEveryCut(t *testing.T) {
	address := serve(t, NewServer(), new(service))
	for after := range 200 {
		for _, writes := range []bool{false, true} {
			first := true
			c := dial(t, address, WithBackoff(time.Microsecond), WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
				if err != nil || !first {
					return nc, err
				}
				first = false
				return &cut{Conn: nc, left: after, writes: writes}, nil
			}))
			stub := testgrpc.NewTestServiceClient(c)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := stub.UnaryCall(ctx, request([]byte("hello"))); err != nil && status.Code(err) != codes.Unavailable {
				t.Errorf("cut after %d bytes, writes: %v: %v", after, writes, err)
			}
			for {
				_, err := stub.UnaryCall(ctx, request([]byte("again")))
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					t.Fatalf("after the cut at %d: %v", after, err)
				}
			}
			cancel()
			_ = c.Close()
		}
	}
}

// cut is a connection that is closed within its first bytes, one way.
type cut struct {
	net.Conn
	left   int
	writes bool
}

func (c *cut) Read(p []byte) (int, error) {
	if c.writes {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:min(len(p), max(c.left, 1))])
	return c.pass(n, err)
}

func (c *cut) Write(p []byte) (int, error) {
	if !c.writes {
		return c.Conn.Write(p)
	}
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:max(c.left, 0)])
	_ = c.Close()
	if err == nil {
		err = io.ErrClosedPipe
	}
	return n, err
}

func (c *cut) pass(n int, err error) (int, error) {
	if c.left -= n; c.left < 0 {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestOneSlowReader leaves a stream unread for good, among callers of the same connection: they
// all finish, and the server's handler waits.
func TestOneSlowReader(t *testing.T) {
	impl := new(service)
	c := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), impl)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := &testgrpc.StreamingOutputCallRequest{}
	for range 100 {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: 1 << 20})
	}
	slow, err := c.StreamingOutputCall(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Recv(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 99 {
		all.Go(func() {
			for range 20 {
				if _, err := c.UnaryCall(t.Context(), request(make([]byte, 10_000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for n := 1; n < 100; n++ { // and it is whole when it is read after all
		if out, err := slow.Recv(); err != nil || len(out.GetPayload().GetBody()) != 1<<20 {
			t.Fatalf("message %d: %v", n, err)
		}
	}
}
