package prepared

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// plainBytes is a codec of messages that are bytes.
type plainBytes struct{}

func (plainBytes) Name() string                    { return "proto" }
func (plainBytes) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (plainBytes) Unmarshal(p []byte, v any) error { *v.(*[]byte) = bytes.Clone(p); return nil }

var _ encoding.Codec = plainBytes{}

// grpcEcho answers with the request's message, or with the status that the method says.
func grpcEcho(_ any, stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	method, _ := grpc.MethodFromServerStream(stream)
	switch method {
	case "/test/Denied":
		return status.Error(codes.PermissionDenied, "not for you: 100%, ä")
	case "/test/Metadata":
		got, _ := metadata.FromIncomingContext(stream.Context())
		deadline, limited := stream.Context().Deadline()
		message = fmt.Appendf(nil, "%s %s %t", got["x-own"], got["x-own-bin"], limited && time.Until(deadline) > 0)
	case "/test/Slow":
		<-stream.Context().Done()
		return status.FromContextError(stream.Context().Err()).Err()
	}
	return stream.SendMsg(&message)
}

func grpcServer(t testing.TB, options ...grpc.ServerOption) service.Plan {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.ForceServerCodec(plainBytes{}), grpc.UnknownServiceHandler(grpcEcho))...)
	go func() { _ = server.Serve(listener) }() // until Stop, which waits for it
	t.Cleanup(server.Stop)
	return service.Plan{Definition: &service.Definition{Wire: service.GRPC, Address: listener.Addr().String(), Requests: []service.Request{
		{Path: "/test/Echo", Messages: [][]byte{[]byte("hello")}},
		{Path: "/test/Echo", Messages: [][]byte{make([]byte, 3<<20)}},
		{Path: "/test/Echo"},
		{Path: "/test/Denied"},
		{Path: "/test/Metadata", Header: []service.Field{{Name: "X-Own", Value: "mine"}, {Name: "x-own-bin", Value: "\xff"}}},
		{Path: "/test/Slow"},
	}}}
}

func TestGRPC(t *testing.T) {
	plan := grpcServer(t)
	client, _ := open(t, plan)
	var answer service.Answer
	for range 3 {
		for i, want := range []service.Answer{
			{Bytes: 5, Messages: 1},
			{Bytes: 3 << 20, Messages: 1},
			{Messages: 1},
			{Status: int(codes.PermissionDenied), Message: "not for you: 100%, ä"},
			{Bytes: int64(len("[mine] [\xff] true")), Messages: 1},
		} {
			if err := client.Call(t.Context(), &plan.Requests[i], &answer); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			if answer.Status != want.Status || answer.Message != want.Message || answer.Bytes != want.Bytes || answer.Messages != want.Messages {
				t.Errorf("call %d: %+v", i, answer)
			}
		}
	}
}

// Callers share connections that take fewer streams.
func TestGRPCManyCallers(t *testing.T) {
	plan := grpcServer(t, grpc.MaxConcurrentStreams(7))
	plan.Connections, plan.Callers = 2, 40
	client, counts := open(t, plan)
	var callers sync.WaitGroup
	for range plan.Callers {
		callers.Go(func() {
			var answer service.Answer
			for range 50 {
				if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil || answer.Messages != 1 {
					t.Errorf("%v: %+v", err, answer)
					return
				}
			}
		})
	}
	callers.Wait()
	if n := counts.Counts().Opened; n != 2 {
		t.Errorf("%d connections", n)
	}
}

// A web server is no gRPC server.
func TestGRPCToAWebServer(t *testing.T) {
	plan := planFor(cleartext(t, nil), service.GRPC, service.Request{Path: "/size"}, service.Request{Path: "/nothing"})
	client, _ := open(t, plan)
	for i, want := range []codes.Code{codes.Unknown, codes.Unimplemented} {
		var answer service.Answer
		if err := client.Call(t.Context(), &plan.Requests[i], &answer); err != nil || codes.Code(answer.Status) != want || answer.Message == "" {
			t.Errorf("%v: %+v", err, answer)
		}
	}
}

func TestGRPCTimeout(t *testing.T) {
	plan := grpcServer(t)
	plan.Timeout = 50 * time.Millisecond
	client, counts := open(t, plan)
	began := time.Now()
	var answer service.Answer
	err := client.Call(t.Context(), &plan.Requests[5], &answer)
	// Where the watch is not let run, the server's own deadline comes first, as a status.
	told := err == nil && codes.Code(answer.Status) == codes.DeadlineExceeded
	if !told && failure.Of(err) != failure.Deadline || time.Since(began) < plan.Timeout {
		t.Errorf("after %v: %v, %+v", time.Since(began), err, answer)
	}
	if err := client.Call(t.Context(), &plan.Requests[0], &service.Answer{}); err != nil || counts.Counts().Opened != 1 {
		t.Errorf("%v, %d connections: the connection goes on", err, counts.Counts().Opened)
	}
}

func TestGRPCCallsEnd(t *testing.T) {
	plan := grpcServer(t)
	client, _ := open(t, plan)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- client.Call(ctx, &plan.Requests[5], &service.Answer{}) }()
	go func() { failed <- client.Call(t.Context(), &plan.Requests[5], &service.Answer{}) }()
	cancel()
	if err := <-failed; failure.Of(err) != failure.Cancelled {
		t.Errorf("%v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a call outlived its client")
	}
}
