package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
	"wirelab.dev/internal/workload/echo/echopb"
)

// mirror answers each message of a stream with its body.
type mirror struct {
	testpb.UnimplementedTestServiceServer
}

func (mirror) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.TestResponse{Body: in.Body}); err != nil {
			return err
		}
	}
}

// TestStreamRunsAhead has many messages on the way at once, so that a buffer
// that is used again too early shows.
func TestStreamRunsAhead(t *testing.T) {
	const count = 2000
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i*7%3000) }
	for _, variant := range []string{"tcp", "tcp:buffers=pooled"} {
		server, err := Stack{}.NewServer(parse(t, variant))
		if err != nil {
			t.Fatal(err)
		}
		testpb.RegisterTestServiceServer(server, mirror{})
		client, err := Stack{}.NewClient(t.Context(), parse(t, variant), stack.Target{Address: serve(t, server)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		for range 2 {
			stream, err := testpb.NewTestServiceClient(client).Bidi(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sent := make(chan error, 1)
			go func() {
				for i := range count {
					if err := stream.Send(&testpb.TestRequest{Body: body(i)}); err != nil {
						sent <- err
						return
					}
				}
				sent <- stream.CloseSend()
			}()
			for i := range count {
				out, err := stream.Recv()
				if err != nil {
					t.Fatalf("%s: message %d: %v", variant, i, err)
				}
				if !bytes.Equal(out.Body, body(i)) {
					t.Fatalf("%s: message %d came back changed", variant, i)
				}
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: the stream ended with %v", variant, err)
			}
			if err := <-sent; err != nil {
				t.Errorf("%s: Send: %v", variant, err)
			}
		}
		if counts := client.Connections(); counts.Opened != 1 {
			t.Errorf("%s: %+v, want one connection for stream after stream", variant, counts)
		}
	}
}

// stubborn does not end with its context.
type stubborn struct {
	echopb.UnimplementedEchoServiceServer
	running, release chan struct{}
}

func (s stubborn) Echo(_ context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	close(s.running)
	<-s.release
	return in, nil
}

// Shutdown waits for a handler even when its client has gone.
func TestShutdownWaitsForOrphans(t *testing.T) {
	service := stubborn{running: make(chan struct{}), release: make(chan struct{})}
	s := newServer(settings{})
	echopb.RegisterEchoServiceServer(s, service)
	client, err := Stack{}.NewClient(t.Context(), parse(t, "tcp:framing=calls"), stack.Target{Address: serve(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := callerOf(t, client)(&echopb.Payload{})
		failed <- err
	}()
	<-service.running
	client.Close()
	if <-failed == nil {
		t.Error("a call on a closed client went well")
	}
	awaitConnections(t, s, 0)

	over := make(chan error, 1)
	go func() { over <- s.Shutdown(context.Background()) }()
	select {
	case <-over:
		t.Error("Shutdown returned while a handler was running")
	case <-time.After(20 * time.Millisecond):
	}
	close(service.release)
	if err := <-over; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
