package rest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// annotate echoes the caller's x-asked as header and trailer.
func annotate(stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	asked := strings.Join(md.Get("x-asked"), ",")
	if err := stream.SetHeader(metadata.Pairs("h-seen", asked)); err != nil {
		return err
	}
	stream.SetTrailer(metadata.Pairs("t-seen", asked, "t-raw-bin", "\x00"))
	return nil
}

func TestStreamMetadata(t *testing.T) {
	service := &scripted{
		clientStream: func(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
			if err := annotate(stream); err != nil {
				return err
			}
			return stream.SendAndClose(&testpb.TestResponse{})
		},
		serverStream: func(in *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
			if err := annotate(stream); err != nil {
				return err
			}
			for range in.Count {
				if err := stream.Send(&testpb.TestResponse{}); err != nil {
					return err
				}
			}
			return status.ErrorProto(status.New(codes.Code(in.Code), in.Message).Proto())
		},
	}
	stub := testpb.NewTestServiceClient(dial(t, serve(t, service), 1))
	ctx := metadata.AppendToOutgoingContext(bounded(t), "x-asked", "a", "x-asked", "b")
	expect := func(header, trailer metadata.MD) {
		t.Helper()
		if got := header.Get("h-seen"); len(got) != 1 || got[0] != "a,b" {
			t.Errorf("the header is %v", header)
		}
		if got, raw := trailer.Get("t-seen"), trailer.Get("t-raw-bin"); len(got) != 1 || got[0] != "a,b" || len(raw) != 1 || raw[0] != "\x00" {
			t.Errorf("the trailer is %v", trailer)
		}
	}

	var header, trailer metadata.MD
	up, err := stub.ClientStream(ctx, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	expect(header, trailer)
	fromStream, _ := up.Header()
	expect(fromStream, up.Trailer())

	for _, in := range []*testpb.TestRequest{{}, {Count: 2}, {Code: 5}, {Code: 5, Count: 1}} {
		down, err := stub.ServerStream(ctx, in, grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil {
			t.Fatal(err)
		}
		received := int32(0)
		for {
			if _, err = down.Recv(); err != nil {
				break
			}
			received++
		}
		ended := errors.Is(err, io.EOF) && in.Code == 0 || status.Code(err) == codes.Code(in.Code)
		if received != in.Count || !ended {
			t.Errorf("%v: %d messages, then %v", in, received, err)
		}
		expect(header, trailer)
		fromStream, _ := down.Header()
		expect(fromStream, down.Trailer())
	}
}

// TestHeaderBeforeTheFirstMessage has the server wait until the client has seen
// the header.
func TestHeaderBeforeTheFirstMessage(t *testing.T) {
	seen := make(chan struct{})
	stub := testpb.NewTestServiceClient(dial(t, serve(t, &scripted{
		serverStream: func(_ *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
			if err := grpc.SendHeader(stream.Context(), metadata.Pairs("h-early", "1")); err != nil {
				return err
			}
			select {
			case <-seen:
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
			if stream.SetHeader(metadata.Pairs("h-late", "1")) == nil {
				return status.Error(codes.Internal, "a header was taken after it was sent")
			}
			return stream.Send(&testpb.TestResponse{Body: []byte("x")})
		},
	}), 1))
	stream, err := stub.ServerStream(bounded(t), &testpb.TestRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if header, err := stream.Header(); err != nil || len(header.Get("h-early")) != 1 {
		t.Errorf("the header is %v, %v", header, err)
	}
	close(seen)
	if out, err := stream.Recv(); err != nil || string(out.Body) != "x" {
		t.Errorf("the first message is %v, %v", out, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestStreamCancel has the handler of each kind wait for the end of its context.
func TestStreamCancel(t *testing.T) {
	running, ended := make(chan struct{}), make(chan error, 1)
	stub := testpb.NewTestServiceClient(dial(t, serve(t, &scripted{
		clientStream: func(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			running <- struct{}{}
			_, err := stream.Recv()
			<-stream.Context().Done()
			ended <- err
			return err
		},
		serverStream: func(_ *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
			if err := stream.Send(&testpb.TestResponse{}); err != nil {
				return err
			}
			running <- struct{}{}
			<-stream.Context().Done()
			ended <- status.FromContextError(stream.Context().Err()).Err()
			return nil
		},
	}), 1))
	for name, call := range map[string]func(context.Context) (receive func() error, err error){
		"client stream": func(ctx context.Context) (func() error, error) {
			stream, err := stub.ClientStream(ctx)
			if err != nil {
				return nil, err
			}
			return func() error { return stream.RecvMsg(&testpb.TestResponse{}) }, stream.Send(&testpb.TestRequest{})
		},
		"server stream": func(ctx context.Context) (func() error, error) {
			stream, err := stub.ServerStream(ctx, &testpb.TestRequest{})
			if err != nil {
				return nil, err
			}
			_, err = stream.Recv()
			return func() error { return stream.RecvMsg(&testpb.TestResponse{}) }, err
		},
	} {
		ctx, cancel := context.WithCancel(bounded(t))
		receive, err := call(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		<-running
		cancel()
		if err := receive(); status.Code(err) != codes.Canceled {
			t.Errorf("%s: the client has %v", name, err)
		}
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("%s: the handler has %v", name, err)
		}
	}
}
