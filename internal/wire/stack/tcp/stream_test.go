package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
	"wirelab.dev/internal/wire/workload/echo/echopb"
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

// TestStreamRunsAhead has many messages in flight at once, so that it notices a
// buffer that is used again too early.
func TestStreamRunsAhead(t *testing.T) {
	const count = 2000
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i*7%3000) }
	for _, variant := range []string{"tcp", "tcp:buffers=pooled"} {
		server, err := Stack{}.NewServer(parse(t, variant))
		if err != nil {
			t.Fatal(err)
		}
		testpb.RegisterTestServiceServer(server, mirror{})
		dialer := &conn.Dialer{}
		client, err := Stack{}.NewClient(t.Context(), parse(t, variant), stack.Target{Address: serve(t, server), Dialer: dialer})
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
		if counts := dialer.Counts(); counts.Opened != 1 {
			t.Errorf("%s: %+v, want one connection for stream after stream", variant, counts)
		}
	}
}

// deaf ends a stream without having read from it.
type deaf struct {
	testpb.UnimplementedTestServiceServer
	unread  chan chan []byte // gets each stream's messages
	release chan struct{}
}

func (d deaf) ClientStream(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	d.unread <- stream.(*grpc.GenericServerStream[testpb.TestRequest, testpb.TestResponse]).ServerStream.(serverStream).messages
	<-d.release
	return status.Error(codes.Aborted, "not listening")
}

// Messages that a handler left unread do not disturb the next call.
func TestUnreadMessagesAreDropped(t *testing.T) {
	service := deaf{unread: make(chan chan []byte, 2), release: make(chan struct{})}
	server := newServer(settings{})
	testpb.RegisterTestServiceServer(server, service)
	dialer := &conn.Dialer{}
	client, err := Stack{}.NewClient(t.Context(), parse(t, "tcp"), stack.Target{Address: serve(t, server), Dialer: dialer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	for turn := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stream, err := testpb.NewTestServiceClient(client).ClientStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 * streamWindow {
			_ = stream.Send(&testpb.TestRequest{Body: []byte("x")})
		}
		if turn == 0 {
			unread := <-service.unread
			eventually(t, "the window is full", func() bool { return len(unread) == cap(unread) })
			close(service.release)
		}
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Aborted {
			t.Errorf("stream %d ended with %v", turn, err)
		}
	}
	if counts := dialer.Counts(); counts.Opened != 1 {
		t.Errorf("%+v, want one connection for both streams", counts)
	}
}

// A stream without a deadline ends with its client.
func TestClientCloseEndsStreams(t *testing.T) {
	server := newServer(settings{})
	testpb.RegisterTestServiceServer(server, mirror{})
	address := serve(t, server)
	for range 50 { // the reader and the goroutine that reads ahead meet the end in either order
		client, err := Stack{}.NewClient(t.Context(), parse(t, "tcp"), stack.Target{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := testpb.NewTestServiceClient(client).Bidi(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := stream.Recv()
			ended <- err
		}()
		client.Close()
		select {
		case err := <-ended:
			if status.Code(err) != codes.Canceled {
				t.Errorf("the stream of a closed client ended with %v, want Canceled", err)
			}
		case <-time.After(patience):
			t.Fatal("the stream of a closed client goes on")
		}
	}
}

// stubborn is a handler that ignores the end of its context.
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
func TestShutdownWaitsForHandlersWithoutConnection(t *testing.T) {
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
	case err := <-over:
		t.Errorf("Shutdown returned %v while a handler was running", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(service.release)
	if err := <-over; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
