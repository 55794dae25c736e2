package fastgrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// refusingServer refuses streams on its first connection after they have sent a number
// of bytes: the first ones by RST_STREAM, the last and all that follow by GOAWAY. It
// serves its next connection.
type refusingServer struct {
	net.Listener
	server *Server
	// after is the number of bytes that a stream sends before it is refused.
	after int
	// resets is the number of streams that are refused by RST_STREAM.
	resets int

	mu      sync.Mutex
	refused int
}

func (r *refusingServer) accept(t *testing.T) {
	nc, err := r.Accept()
	if err != nil {
		return
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			nc, err := r.Accept()
			if err != nil {
				return
			}
			_ = r.server.ServeConn(nc)
		}
	}()
	if err := r.refuse(nc); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		t.Logf("the refusingServer's connection: %v", err)
	}
	<-served
}

func (r *refusingServer) refuse(nc net.Conn) error {
	fr := http2.NewFramer(nc, nc)
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	if err := fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}); err != nil {
		return err
	}
	if err := fr.WriteWindowUpdate(0, 1<<30); err != nil {
		return err
	}
	got := map[uint32]int{}
	for {
		frame, err := fr.ReadFrame()
		if err != nil {
			return err
		}
		id := frame.Header().StreamID
		if _, refused := got[id]; id == 0 || refused && got[id] < 0 {
			continue
		}
		if data, ok := frame.(*http2.DataFrame); ok {
			got[id] += len(data.Data())
		}
		if got[id] < r.after {
			continue
		}
		got[id] = -1
		r.mu.Lock()
		r.refused++
		last := r.refused > r.resets
		r.mu.Unlock()
		if last {
			err = fr.WriteGoAway(0, http2.ErrCodeNo, nil)
		} else {
			err = fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
		}
		if err != nil {
			return err
		}
	}
}

// dialRefusing returns a client of a refusingServer.
func dialRefusing(t *testing.T, r *refusingServer, opts ...ClientOption) testgrpc.TestServiceClient {
	var err error
	if r.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.server = NewServer()
	testgrpc.RegisterTestServiceServer(r.server, echo{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.accept(t)
	}()
	c := dialFast(t, "passthrough:///"+r.Addr().String(), opts...)
	t.Cleanup(func() {
		_ = c.Close()
		_ = r.Close()
		r.server.Stop()
		<-done
	})
	return testgrpc.NewTestServiceClient(c)
}

// TestRefusedStreams checks that a stream which the server refused before processing it
// is retried with everything that was sent on it.
func TestRefusedStreams(t *testing.T) {
	for name, r := range map[string]*refusingServer{
		"at once":         {},
		"after a message": {after: 900},
		"after all":       {after: 3000},
	} {
		t.Run(name, func(t *testing.T) {
			auditBuffers(t)
			c := dialRefusing(t, r)
			s, err := c.FullDuplexCall(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := s.Send(duplexRequest(byte(i), 1000)); err != nil {
					t.Fatalf("send %d: %v", i, err)
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				m, err := s.Recv()
				if err != nil || !bytes.Equal(m.GetPayload().GetBody(), bytes.Repeat([]byte{byte(i)}, 1000)) {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v", err)
			}
			if r.refused != r.resets+1 {
				t.Errorf("%d streams were refused, want %d", r.refused, r.resets+1)
			}
		})
	}
}

func duplexRequest(fill byte, size int) *testgrpc.StreamingOutputCallRequest {
	return &testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: bytes.Repeat([]byte{fill}, size)}}
}

// TestRefusedCallsOfOtherKinds checks that refused calls of the other kinds are retried,
// and Header too.
func TestRefusedCallsOfOtherKinds(t *testing.T) {
	auditBuffers(t)
	t.Run("output", func(t *testing.T) {
		checkOutput(testContext(t), t, dialRefusing(t, &refusingServer{after: 1}))
	})
	t.Run("unary", func(t *testing.T) {
		if _, err := dialRefusing(t, &refusingServer{after: 1}).UnaryCall(testContext(t), request(nil)); err != nil {
			t.Error(err)
		}
	})
	t.Run("unary, sent once", func(t *testing.T) {
		r := &refusingServer{after: 1}
		_, err := dialRefusing(t, r, WithDisableTransparentRetry()).UnaryCall(testContext(t), request(nil))
		r.mu.Lock()
		defer r.mu.Unlock()
		if status.Code(err) != codes.Unavailable || r.refused != 1 {
			t.Errorf("%d attempts, the last ended with %v", r.refused, err)
		}
	})
	t.Run("header", func(t *testing.T) {
		s, err := dialRefusing(t, &refusingServer{}).StreamingOutputCall(testContext(t), &testgrpc.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Header(); err != nil {
			t.Errorf("header: %v", err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// TestRefusedTooOften checks that a stream that cannot be retried ends once, with the
// right status.
func TestRefusedTooOften(t *testing.T) {
	auditBuffers(t)
	t.Run("too many refusals", func(t *testing.T) {
		r := &refusingServer{resets: 1000}
		s, err := dialRefusing(t, r).FullDuplexCall(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refused != 2 {
			t.Errorf("%d attempts were made", r.refused)
		}
	})
	t.Run("too much sent", func(t *testing.T) {
		ends := 0
		s, err := dialRefusing(t, &refusingServer{after: message.MaxReplayBytes + 100_000}).FullDuplexCall(testContext(t), grpc.OnFinish(func(error) { ends++ }))
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = s.Send(duplexRequest(1, 50_000))
		}
		if _, err := s.Recv(); status.Code(err) != codes.Unavailable || ends != 1 {
			t.Errorf("the stream ended %d times, with %v", ends, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(testContext(t))
		s, err := dialRefusing(t, &refusingServer{after: 1 << 30}).FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(duplexRequest(1, 1000)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("the stream ended with %v", err)
		}
	})
}
