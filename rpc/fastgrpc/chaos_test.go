package fastgrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/h2"
)

// chaosTime sets how long TestEveryCallEnds runs.
const chaosTime = 3 * time.Second

// auditBuffers checks at the test's end that all pooled buffers have been released and
// no goroutines have leaked.
func auditBuffers(t *testing.T) {
	before := runtime.NumGoroutine()
	out := new(atomic.Int64)
	batchio.CountBuffers(out)
	t.Cleanup(func() {
		eventually(t, "for buffers and goroutines to go", func() bool { return out.Load() == 0 && runtime.NumGoroutine() <= before })
		batchio.CountBuffers(nil)
		if n := out.Load(); n != 0 {
			t.Errorf("%d buffers were not released", n)
		}
		if n := runtime.NumGoroutine(); n > before {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines, %d before:\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// TestEveryCallEnds makes calls of all kinds while connections are cut, servers drain,
// deadlines pass and callers cancel. Each call must end once, with its own response or
// with a status that says why not.
func TestEveryCallEnds(t *testing.T) {
	auditBuffers(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servers := &rollingServer{lis: &cutListener{Listener: lis}}
	servers.next()
	c, err := fastClient("passthrough:///"+lis.Addr().String(), WithConnectParams(quickConnect))
	if err != nil {
		t.Fatal(err)
	}
	client := testgrpc.NewTestServiceClient(c)
	ctx, cancel := context.WithTimeout(context.Background(), chaosTime)
	var tally sync.Map
	var begun, ended, succeeded atomic.Int64
	most := testContext(t)
	count := grpc.OnFinish(func(error) { ended.Add(1) })
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Add(1)
		go func() {
			defer callers.Done()
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for ctx.Err() == nil || succeeded.Load() < 100 && most.Err() == nil { // a slow machine succeeds afterwards
				begun.Add(1)
				kind, err := chaosCall(client, random, count)
				if err == nil {
					succeeded.Add(1)
				}
				n, _ := tally.LoadOrStore(kind+" "+status.Code(err).String(), new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
				if !allowedInChaos(err) {
					t.Errorf("%s ended with %v", kind, err)
					return
				}
			}
		}()
	}
	disturb(ctx, servers)
	cancel()
	callers.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	servers.stop()
	eventually(t, "for streams that were left to their contexts", func() bool { return ended.Load() == begun.Load() })
	if begun, ended := begun.Load(), ended.Load(); begun != ended {
		t.Errorf("%d calls began and %d ended", begun, ended)
	}
	tally.Range(func(k, v any) bool {
		t.Logf("%s: %d", k, v.(*atomic.Int64).Load())
		return true
	})
	if n := succeeded.Load(); n < 100 {
		t.Errorf("only %d calls succeeded", n)
	}
}

func allowedInChaos(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return false
}

var quickConnect = grpc.ConnectParams{MinConnectTimeout: time.Second}

// disturb cuts connections and replaces servers until ctx is done.
func disturb(ctx context.Context, servers *rollingServer) {
	random := rand.New(rand.NewPCG(2, 2))
	for ctx.Err() == nil {
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		switch random.IntN(3) {
		case 0:
			servers.lis.cut()
		case 1:
			servers.next()
		}
	}
}

// rollingServer replaces a draining server by a new one on the same listener.
type rollingServer struct {
	lis     *cutListener
	current *Server
	old     sync.WaitGroup
}

func (s *rollingServer) next() {
	old := s.current
	s.current = NewServer(MaxConcurrentStreams(20))
	testgrpc.RegisterTestServiceServer(s.current, echo{})
	if old != nil {
		s.old.Add(1)
		go func() {
			defer s.old.Done()
			old.GracefulStop()
		}()
	}
	s.lis.serve(s.current)
}

func (s *rollingServer) stop() {
	s.current.Stop()
	_ = s.lis.Close()
	s.old.Wait()
}

// cutListener gives connections to the current server and can cut them all.
type cutListener struct {
	net.Listener
	begin  sync.Once
	mu     sync.Mutex
	server *Server
	conns  []net.Conn
}

func (l *cutListener) serve(s *Server) {
	l.mu.Lock()
	l.server = s
	l.mu.Unlock()
	l.begin.Do(func() {
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				l.mu.Lock()
				l.conns = append(l.conns, nc)
				server := l.server
				if len(l.conns)%2 == 0 {
					nc = &resettingConn{Conn: nc, random: rand.New(rand.NewPCG(3, rand.Uint64()))}
				}
				l.mu.Unlock()
				_ = server.ServeConn(nc)
			}
		}()
	})
}

func (l *cutListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, nc := range l.conns {
		_ = nc.Close()
	}
	l.conns = nil
}

// resettingConn is a server's connection that resets streams without the server's
// knowledge, as a proxy might: before, during or after the response.
type resettingConn struct {
	net.Conn
	random *rand.Rand
}

// Write expects whole frames.
func (r *resettingConn) Write(p []byte) (int, error) {
	h := h2.ParseFrameHeader(p)
	if h.StreamID == 0 || r.random.IntN(50) > 0 {
		return r.Conn.Write(p)
	}
	code := []http2.ErrCode{http2.ErrCodeCancel, http2.ErrCodeRefusedStream}[r.random.IntN(2)]
	reset := h2.AppendFrameHeader(nil, h2.FrameHeader{Length: 4, Type: http2.FrameRSTStream, StreamID: h.StreamID})
	reset = binary.BigEndian.AppendUint32(reset, uint32(code))
	if r.random.IntN(2) == 0 {
		_, err := r.Conn.Write(append(reset, p...))
		return len(p), err
	}
	n := h2.FrameHeaderLen + h.Length
	_, err := r.Conn.Write(slices.Concat(p[:n], reset, p[n:]))
	return len(p), err
}

// chaosCall makes one call and checks that the response belongs to it.
func chaosCall(c testgrpc.TestServiceClient, random *rand.Rand, count grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch random.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(2000))*time.Microsecond)
		defer cancel()
	case 1:
		stop := time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
		defer stop.Stop()
	}
	id := random.Uint64()
	body := bytes.Repeat(binary.BigEndian.AppendUint64(nil, id), 1+random.IntN(1+random.IntN(5000)))
	opts := []grpc.CallOption{count, grpc.WaitForReady(random.IntN(2) == 0)}
	if random.IntN(2) == 0 {
		return "unary", chaosUnary(ctx, c, body, opts)
	}
	return "stream", chaosStream(ctx, c, body, opts)
}

var errWrong = fmt.Errorf("another call's answer")

func chaosUnary(ctx context.Context, c testgrpc.TestServiceClient, body []byte, opts []grpc.CallOption) error {
	out, err := c.UnaryCall(ctx, request(body), opts...)
	if err == nil && !bytes.Equal(out.GetPayload().GetBody(), body) {
		return errWrong
	}
	return err
}

func chaosStream(ctx context.Context, c testgrpc.TestServiceClient, body []byte, opts []grpc.CallOption) error {
	// The stream may be abandoned: the caller of this function cancels its context.
	s, err := c.FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	for range 3 {
		if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: body}}); err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			_, err := s.Recv()
			return err
		}
		out, err := s.Recv()
		if err != nil {
			return err
		}
		if !bytes.Equal(out.GetPayload().GetBody(), body) {
			return errWrong
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		if err == nil {
			return errWrong
		}
		return err
	}
	return nil
}
