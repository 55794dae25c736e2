package rest

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// talking answers each request when it comes, and ends as the request says.
type talking struct {
	testpb.UnimplementedTestServiceServer
	ended chan error
}

func (s *talking) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) (err error) {
	defer func() { s.ended <- err }()
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if in.Code != 0 {
			return status.Error(codes.Code(in.Code), in.Message)
		}
		if err := stream.Send(&testpb.TestResponse{Body: in.Body}); err != nil {
			return err
		}
	}
}

// TestConversation takes turns, which needs both ways at once, and ends in each
// of the ways in which it can.
func TestConversation(t *testing.T) {
	for _, variant := range []string{"h2", "h2:tls=on", "h2:codec=json", "h3"} {
		t.Run(variant, func(t *testing.T) {
			service := &talking{ended: make(chan error, 1)}
			address, root := serveOn(t, variant, service)
			stub := testpb.NewTestServiceClient(dialOn(t, variant, stack.Target{Address: address, Trust: secure.Trust{RootPEM: root}}))
			begin := func(ctx context.Context) grpc.BidiStreamingClient[testpb.TestRequest, testpb.TestResponse] {
				stream, err := stub.Bidi(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, word := range []string{"one", "two", "three"} {
					if err := stream.Send(&testpb.TestRequest{Body: []byte(word)}); err != nil {
						t.Fatal(err)
					}
					if out, err := stream.Recv(); err != nil || string(out.Body) != word {
						t.Fatalf("%s was answered with %v, %v", word, out, err)
					}
				}
				return stream
			}

			stream := begin(bounded(t))
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("closed by the client, it ended with %v", err)
			}
			if stream.Context().Err() == nil {
				t.Error("what belongs to the stream outlives it")
			}
			if err := <-service.ended; err != nil {
				t.Errorf("closed by the client, the handler met %v", err)
			}

			stream = begin(bounded(t))
			if err := stream.Send(&testpb.TestRequest{Code: int32(codes.Aborted), Message: "enough"}); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); status.Code(err) != codes.Aborted {
				t.Errorf("aborted by the server, it ended with %v", err)
			}
			if err := <-service.ended; status.Code(err) != codes.Aborted {
				t.Errorf("aborted by the server, the handler met %v", err)
			}
			for { // the client sees the abort sooner or later
				if err := stream.Send(&testpb.TestRequest{}); err != nil {
					break
				}
			}

			ctx, cancel := context.WithCancel(bounded(t))
			stream = begin(ctx)
			cancel()
			if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
				t.Errorf("cancelled by the client, it ended with %v", err)
			}
			if err := <-service.ended; status.Code(err) != codes.Canceled {
				t.Errorf("cancelled by the client, the handler met %v", err)
			}
		})
	}
}
