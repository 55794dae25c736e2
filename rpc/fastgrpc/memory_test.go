package fastgrpc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// mute is echo with streams that neither end reads: a handler sends as long as it may.
type mute struct {
	echo
	most   int          // messages that a handler sends; 0 is no limit
	silent bool         // makes the client keep messages for a retry
	sent   atomic.Int64 // messages of all senders
}

// FullDuplexCall reads nothing.
func (m *mute) FullDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	if !m.silent {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return nil
}

// StreamingOutputCall sends messages of the first size until the call ends.
func (m *mute) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, out grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	message := new(testgrpc.StreamingOutputCallResponse)
	if n := in.ResponseParameters[0].Size; n > 0 {
		message.Payload = &testgrpc.Payload{Body: make([]byte, n)}
	}
	for n := 1; out.Send(message) == nil; n++ {
		if m.sent.Add(1); n == m.most {
			<-out.Context().Done()
		}
	}
	return nil
}

// unreadStreams opens streams whose messages are read by nobody, and sends until nothing
// has moved for a while. On a slow machine that may be early, which is no failure.
func unreadStreams(t *testing.T, c testgrpc.TestServiceClient, service *mute, streams, size int, up bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline, whose end would help calls that these streams stop
	var senders sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		senders.Wait()
	})
	for range streams {
		if !up {
			in := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: int32(size)}}}
			if _, err := c.StreamingOutputCall(ctx, in); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		message := &testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, size)}}
		senders.Go(func() {
			for s.Send(message) == nil {
				service.sent.Add(1)
			}
		})
	}
	for before := int64(-1); before != service.sent.Load() || before == 0; time.Sleep(200 * time.Millisecond) {
		before = service.sent.Load()
	}
}

func start(t *testing.T, p pair, service testgrpc.TestServiceServer) testgrpc.TestServiceClient {
	t.Helper()
	c, err := p.client(serveTest(t, p.server(), service))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return testgrpc.NewTestServiceClient(c)
}

var theirPair = pair{"grpc-go to grpc-go", theirServer, theirClient}

// TestUnreadStreamsStopNoOthers checks that calls go on beside streams that nobody reads.
func TestUnreadStreamsStopNoOthers(t *testing.T) {
	for _, p := range pairs {
		for _, up := range []bool{true, false} {
			// The end that keeps unread data must be fastgrpc: grpc-go's would take 16 MiB
			// per stream.
			if up && !strings.HasSuffix(p.name, "to fast") || !up && !strings.HasPrefix(p.name, "fast") {
				continue
			}
			t.Run(fmt.Sprintf("%s/up=%v", p.name, up), func(t *testing.T) {
				service := new(mute)
				c := start(t, p, service)
				streams := 1000
				if testing.Short() {
					streams = 200
				}
				unreadStreams(t, c, service, streams, 10_000, up)
				for _, size := range []int{1, 100_000, 3 << 20} {
					out, err := c.UnaryCall(testContext(t), request(make([]byte, size)))
					if err != nil || len(out.Payload.Body) != size {
						t.Fatalf("a call of %d bytes: %v", size, err)
					}
				}
			})
		}
	}
}

// TestUnreadMessagesCostTheirBytes sends many short messages to streams that nobody reads,
// within their windows. A message of one byte costs grpc-go 30 bytes or more.
func TestUnreadMessagesCostTheirBytes(t *testing.T) {
	const streams, messages, most = 20, 10_000, 24
	for _, direction := range []string{"up", "up for a retry", "down"} {
		t.Run(direction, func(t *testing.T) {
			s := NewServer()
			service := &mute{most: messages, silent: direction == "up for a retry"}
			c := dialFast(t, serveTest(t, s, service))
			stub := testgrpc.NewTestServiceClient(c)
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			if _, err := stub.UnaryCall(ctx, request(nil)); err != nil {
				t.Fatal(err)
			}
			before := liveHeap()
			one := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: 0}}}
			for range streams {
				if direction == "down" {
					if _, err := stub.StreamingOutputCall(ctx, one); err != nil {
						t.Fatal(err)
					}
					continue
				}
				up, err := stub.FullDuplexCall(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if !service.silent {
					if _, err := up.Header(); err != nil {
						t.Fatal(err)
					}
				}
				for range messages {
					if err := up.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			eventually(t, "for the messages to arrive", func() bool {
				return max(s.Counters().BytesIn, c.Counters().BytesIn) >= streams*messages*(wire.PrefixLen+h2.FrameHeaderLen)
			})
			// The bytes have arrived, but the last of them may still be in the buffers that
			// they were read into, on a busy machine for long.
			grown := int64(0)
			eventually(t, fmt.Sprintf("for %d unread messages to cost at most %d bytes each", streams*messages, most), func() bool {
				grown = liveHeap() - before
				return grown <= streams*messages*most
			})
			t.Logf("%d bytes per message", grown/streams/messages)
		})
	}
}

// liveHeap returns the bytes of reachable objects.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep their memory for one collection
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestCancelsSpareOthers cancels most streams at once, while content for them is under
// way. The others must go on.
func TestCancelsSpareOthers(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			service := &mute{most: 300}
			c := start(t, p, service)
			some, cancel := context.WithCancel(testContext(t))
			defer cancel()
			in := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: 100}}}
			var others []grpc.ServerStreamingClient[testgrpc.StreamingOutputCallResponse]
			rest, stop := context.WithCancel(testContext(t))
			defer stop()
			var readers sync.WaitGroup
			for i := range 900 {
				ctx := some
				if i%9 == 0 {
					ctx = rest
				}
				s, err := c.StreamingOutputCall(ctx, in)
				if err != nil {
					t.Fatal(err)
				}
				if i%9 == 0 {
					others = append(others, s)
					continue
				}
				readers.Go(func() {
					for err := error(nil); err == nil; {
						_, err = s.Recv()
					}
				})
			}
			for service.sent.Load() < 10_000 {
				time.Sleep(time.Millisecond)
			}
			cancel()
			readers.Wait()
			for i, s := range others {
				for range service.most {
					if _, err := s.Recv(); err != nil {
						t.Fatalf("stream %d: %v", i, err)
					}
				}
			}
		})
	}
}

// TestUploadToNetHTTP sends to a server that renews its windows with each read, as often
// as it may.
func TestUploadToNetHTTP(t *testing.T) {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(1 << 20))
	testgrpc.RegisterTestServiceServer(s, echo{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: s, Protocols: new(http.Protocols)}
	web.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = web.Serve(lis) }() // ends with Close
	t.Cleanup(func() { _ = web.Close() })
	c := dialFast(t, "passthrough:///"+lis.Addr().String(), func(o *clientOptions) { unforgiving(&o.limits) })
	up, err := testgrpc.NewTestServiceClient(c).StreamingInputCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	message := &testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, 256<<10)}}
	const messages = 1500
	for range messages {
		if err := up.Send(message); err != nil {
			_, err := up.CloseAndRecv()
			t.Fatal(err)
		}
	}
	if out, err := up.CloseAndRecv(); err != nil || out.AggregatedPayloadSize != messages*256<<10 {
		t.Errorf("the upload ended with %v, %v", out, err)
	}
}

// TestStreamNumbersRunOut makes calls while a connection comes to its last streams.
func TestStreamNumbersRunOut(t *testing.T) {
	s, target := startFast(t)
	c := dialFast(t, target, func(o *clientOptions) { o.h2.FirstStream = (1<<31-1)/4*3 - 400 | 1 })
	stub := testgrpc.NewTestServiceClient(c)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			for range 50 {
				if _, err := stub.UnaryCall(testContext(t), request([]byte{1})); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	if n := s.Counters().CallsSucceeded; n != 1000 {
		t.Errorf("the server has answered %d calls", n)
	}
}

// TestGenerousDefaults makes calls that grpc-go takes by default.
func TestGenerousDefaults(t *testing.T) {
	for _, p := range append(pairs, theirPair) {
		t.Run(p.name, func(t *testing.T) {
			service := new(mute)
			c := start(t, p, service)
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			for range 1100 {
				if _, err := c.FullDuplexCall(ctx); err != nil {
					t.Fatal(err)
				}
			}
			big := metadata.AppendToOutgoingContext(ctx, "echo", strings.Repeat("x", 100<<10))
			var header metadata.MD
			if _, err := c.UnaryCall(big, request(nil), grpc.Header(&header)); err != nil || len(header["echo"]) != 1 {
				t.Errorf("100 KiB of metadata: %v", err)
			}
		})
	}
}

// TestRestingConnections checks that an idle connection costs no more than grpc-go's.
func TestRestingConnections(t *testing.T) {
	conns, sizes := int64(200), []int{64, 1 << 20}
	if testing.Short() {
		conns, sizes = 50, sizes[:1]
	}
	cost := func(t *testing.T, p pair, size int) int64 {
		target := serveTest(t, p.server(), echo{})
		connect := func() {
			c, err := p.client(target)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if _, err := testgrpc.NewTestServiceClient(c).UnaryCall(testContext(t), request(make([]byte, size))); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 { // fills the pools, which belong to no connection
			connect()
		}
		before := liveHeap()
		for range conns {
			connect()
		}
		return (liveHeap() - before) / conns
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			theirs := cost(t, theirPair, size)
			for _, p := range pairs {
				n := cost(t, p, size)
				t.Logf("%s: %d bytes, grpc-go %d", p.name, n, theirs)
				if n > theirs+theirs/4 {
					t.Errorf("%s: a resting connection costs %d bytes, grpc-go's %d", p.name, n, theirs)
				}
			}
		})
	}
}
