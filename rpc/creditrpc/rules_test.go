package creditrpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// TestAStoppedServersCallsAreNotRepeated stops a server while a call runs: its client must not look
// for another server to make it there again.
func TestAStoppedServersCallsAreNotRepeated(t *testing.T) {
	first, impl := NewServer(), new(service)
	address := serve(t, first, impl)
	var dials atomic.Int64
	c := testgrpc.NewTestServiceClient(dial(t, address, WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			return nil, errors.New("there is no other server")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})))
	stream, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := request(nil)
	in.ResponseStatus = &testgrpc.EchoStatus{Message: "wait"}
	ended := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(t.Context(), in)
		ended <- err
	}()
	_ = stream.Send(&testgrpc.StreamingOutputCallRequest{})
	for impl.calls.Load() < 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&testgrpc.StreamingOutputCallRequest{})
	}
	first.Stop()
	if err := <-ended; status.Code(err) != codes.Unavailable || dials.Load() > 1 {
		t.Errorf("%v, after %d dials", err, dials.Load())
	}
}

// TestManyFailures has many callers get answers that need no credit. All come.
func TestManyFailures(t *testing.T) {
	c := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), new(service))))
	in := request(nil)
	in.ResponseStatus = &testgrpc.EchoStatus{Code: int32(codes.Aborted), Message: strings.Repeat("x", 15_000)}
	var callers sync.WaitGroup
	for range 300 {
		callers.Go(func() {
			for range 3 {
				if _, err := c.UnaryCall(t.Context(), in); status.Code(err) != codes.Aborted {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// TestWaitingCallsWithMetadata has as many calls wait as may be open, whose metadata take more than half
// of the connection's window. Another call needs that much, too.
func TestWaitingCallsWithMetadata(t *testing.T) {
	wait := request(nil)
	wait.ResponseStatus = &testgrpc.EchoStatus{Message: "wait"}
	for name, begin := range map[string]func(context.Context, testgrpc.TestServiceClient){
		"streams": func(ctx context.Context, c testgrpc.TestServiceClient) { _, _ = c.FullDuplexCall(ctx) },
		"unary":   func(ctx context.Context, c testgrpc.TestServiceClient) { _, _ = c.UnaryCall(ctx, wait) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t) // takes 8 calls and 139,392 bytes
				waiting := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 15_000))
				for range 7 {
					go begin(waiting, w.stub) // ends with the connection
				}
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := w.stub.UnaryCall(ctx, request(make([]byte, 65_000))); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLongStatuses has handlers fail with more words than a frame takes. The connection goes on.
func TestLongStatuses(t *testing.T) {
	c := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), new(service))))
	both, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []struct{ text, details int }{{100, 100}, {frame.MaxOtherPayload / 2, frame.MaxOtherPayload}, {1 << 20, 0}, {17 << 20, 0}} {
		ending := newEnding(status.New(codes.Aborted, strings.Repeat("é", length.text/2)), nil)
		if payload := ending.Append(nil); len(payload) > frame.MaxOtherPayload || len(ending.Message) < min(length.text, frame.MaxOtherPayload-100) {
			t.Errorf("%d bytes of text are sent as %d, in %d", length.text, len(ending.Message), len(payload))
		}
		if length.text > 1<<20 {
			continue // longer than a request may be
		}
		in := request(make([]byte, length.details))
		in.ResponseStatus = &testgrpc.EchoStatus{Code: int32(codes.Aborted), Message: strings.Repeat("é", length.text/2)}
		_, err := c.UnaryCall(t.Context(), in)
		if st := status.Convert(err); st.Code() != codes.Aborted || !strings.HasPrefix(in.GetResponseStatus().GetMessage(), st.Message()) || len(st.Message()) < min(length.text, frame.MaxOtherPayload-100) {
			t.Errorf("a text of %d bytes came as %v with %d", length.text, st.Code(), len(st.Message()))
		}
	}
	if err := both.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := both.Recv(); err != nil {
		t.Errorf("the connection's other call: %v", err)
	}
}
