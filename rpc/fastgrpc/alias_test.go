package fastgrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// keeper is a service whose handlers return while somebody else has the message.
type keeper struct {
	testgrpc.UnimplementedTestServiceServer
	kept chan []byte
}

// UnaryCall breaks the rules of AliasRequests.
func (k keeper) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	select {
	case k.kept <- in.Payload.Body:
	default:
	}
	return &testgrpc.SimpleResponse{}, nil
}

// FullDuplexCall keeps to them.
func (k keeper) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	in, err := s.Recv()
	if err != nil {
		return err
	}
	k.kept <- in.Payload.Body
	return nil
}

// StreamingInputCall returns while another goroutine receives.
func (k keeper) StreamingInputCall(s testgrpc.TestService_StreamingInputCallServer) error {
	in, err := s.Recv()
	if err != nil {
		return err
	}
	go func() { // ends with the call
		for err == nil {
			_ = bytes.Count(in.Payload.Body, []byte{1})
			in, err = s.Recv()
		}
	}()
	return nil
}

// overwrite makes calls until what others left in the receive buffers is overwritten.
func overwrite(t *testing.T, c testgrpc.TestServiceClient) {
	t.Helper()
	for range 50 {
		if _, err := c.UnaryCall(testContext(t), request(bytes.Repeat([]byte{1}, 30_000))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAliasAfterReturn checks that the last message of a stream stays as it is when its
// handler has returned, that a goroutine may receive then, and that no buffer is counted
// as in use afterwards.
func TestAliasAfterReturn(t *testing.T) {
	auditBuffers(t)
	t.Run("calls", func(t *testing.T) {
		k := keeper{kept: make(chan []byte, 1)}
		c := testgrpc.NewTestServiceClient(dialFast(t, serveTest(t, NewServer(AliasRequests()), k)))
		want := bytes.Repeat([]byte{9}, 3000)
		for range 64 {
			s, err := c.FullDuplexCall(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: want}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			got := <-k.kept
			k.kept <- nil // so that UnaryCall keeps nothing
			overwrite(t, c)
			<-k.kept
			if !bytes.Equal(got, want) {
				t.Fatalf("the message became %x…", got[:16])
			}
		}
		for range 100 {
			s, err := c.StreamingInputCall(testContext(t))
			for err == nil {
				err = s.Send(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: want}})
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
	})
}

// TestAliasOfAbandonedStreams checks that no buffer is counted as in use for a stream that
// a client gave up without another RecvMsg: after 32 of them, all messages were copied.
func TestAliasOfAbandonedStreams(t *testing.T) {
	auditBuffers(t)
	t.Run("calls", func(t *testing.T) {
		_, target := startFast(t)
		c := testgrpc.NewTestServiceClient(dialFast(t, target, WithAliasedResponses()))
		for range 10 {
			ctx, cancel := context.WithCancel(testContext(t))
			s, err := c.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			in := &testgrpc.StreamingOutputCallRequest{
				Payload:            &testgrpc.Payload{Body: make([]byte, 100_000)},
				ResponseParameters: []*testgrpc.ResponseParameters{{Size: 100_000}},
			}
			if err := s.Send(in); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
	})
}
