package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// answering gives requests back. It fails where the request says so.
type answering struct {
	testpb.UnimplementedTestServiceServer
}

func (answering) Unary(_ context.Context, r *testpb.TestRequest) (*testpb.TestResponse, error) {
	if string(r.GetBody()) == "fail" {
		return nil, status.Error(codes.Aborted, "as asked")
	}
	return &testpb.TestResponse{Body: r.GetBody()}, nil
}

func (answering) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	for {
		r, err := stream.Recv()
		if err == io.EOF { //nolint:errorlint // a stream ends with just this error
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.TestResponse{Body: r.GetBody()}); err != nil {
			return err
		}
	}
}

// kitexStub serves and dials a variant of kitex.
func kitexStub(t *testing.T, text string) testpb.TestServiceClient {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	kitex := stacks()[0]
	server, err := kitex.NewServer(v)
	if err != nil {
		t.Fatal(err)
	}
	testpb.RegisterTestServiceServer(server, answering{})
	address, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	client, err := kitex.NewClient(t.Context(), v, stack.Target{Address: address.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return testpb.NewTestServiceClient(client)
}

func TestKitex(t *testing.T) {
	for _, text := range []string{"kitex", "kitex:framing=mux"} {
		t.Run(text, func(t *testing.T) {
			stub := kitexStub(t, text)
			for _, size := range []int{0, 1, 64, 64 << 10, 1 << 20} {
				sent := bytes.Repeat([]byte("x"), size)
				got, err := stub.Unary(t.Context(), &testpb.TestRequest{Body: sent})
				if err != nil || !bytes.Equal(got.GetBody(), sent) {
					t.Errorf("%d bytes: %d bytes came back, %v", size, len(got.GetBody()), err)
				}
			}
			_, err := stub.Unary(t.Context(), &testpb.TestRequest{Body: []byte("fail")})
			if err == nil || !strings.Contains(err.Error(), "as asked") || text == "kitex" && status.Code(err) != codes.Aborted {
				t.Errorf("a call that fails: %v", err)
			}
			stream, err := stub.Bidi(t.Context())
			if text != "kitex" {
				if status.Code(err) != codes.Unimplemented {
					t.Errorf("a stream: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range []string{"one", "two", "three"} {
				if err := stream.Send(&testpb.TestRequest{Body: []byte(body)}); err != nil {
					t.Fatal(err)
				}
				if got, err := stream.Recv(); err != nil || string(got.GetBody()) != body {
					t.Fatalf("%q came back as %q, %v", body, got.GetBody(), err)
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err != io.EOF { //nolint:errorlint // a stream ends with just this error
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
}
