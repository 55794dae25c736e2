package creditrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
)

// service implements the service that the tests call.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	calls atomic.Int64
}

// UnaryCall answers with the wanted number of bytes, the request's metadata, or its status.
func (s *service) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	s.calls.Add(1)
	if md, _ := metadata.FromIncomingContext(ctx); len(md["echo"]) > 0 {
		_ = grpc.SetHeader(ctx, metadata.MD{"header": md["echo"]})
		_ = grpc.SetTrailer(ctx, metadata.MD{"trailer-bin": md["echo"]})
	}
	if p, ok := peer.FromContext(ctx); !ok || p.Addr == nil {
		return nil, status.Error(codes.Internal, "no peer")
	}
	switch st := in.GetResponseStatus(); {
	case st.GetMessage() == "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case st.GetCode() != 0:
		withDetails, _ := status.New(codes.Code(st.GetCode()), st.GetMessage()).WithDetails(in.GetPayload())
		return nil, withDetails.Err()
	}
	return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: bytes.Repeat(in.GetPayload().GetBody(), max(1, int(in.GetResponseSize())))}}, nil
}

// FullDuplexCall answers each message with itself.
func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	s.calls.Add(1)
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
			return err
		}
	}
}

// StreamingInputCall adds up what it gets.
func (s *service) StreamingInputCall(stream grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse]) error {
	total := 0
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: int32(total)})
		}
		if err != nil {
			return err
		}
		total += len(in.GetPayload().GetBody())
	}
}

// StreamingOutputCall sends as many messages as it is asked for.
func (s *service) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	for _, p := range in.GetResponseParameters() {
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server, and returns its address.
func serve(t testing.TB, s *Server, impl testgrpc.TestServiceServer) string {
	t.Helper()
	testgrpc.RegisterTestServiceServer(s, impl)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil && !errors.Is(err, ErrServerStopped) { // a short test may end before Serve begins
			t.Errorf("Serve: %v", err)
		}
	})
	return lis.Addr().String()
}

func dial(t testing.TB, target string, opts ...ClientOption) *Client {
	t.Helper()
	c, err := NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func request(body []byte) *testgrpc.SimpleRequest {
	return &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: body}}
}

func TestUnaryCalls(t *testing.T) {
	c := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), new(service))))
	for _, n := range []int{0, 1, 64, 4096, 65_000, 70_000, 300_000, 3_000_000} {
		var header, trailer metadata.MD
		var p peer.Peer
		body := bytes.Repeat([]byte("x"), n)
		reply, err := c.UnaryCall(metadata.AppendToOutgoingContext(t.Context(), "echo", "a\x00b", "echo", ""), request(body), grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&p))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if !bytes.Equal(reply.GetPayload().GetBody(), body) {
			t.Errorf("%d bytes became %d", n, len(reply.GetPayload().GetBody()))
		}
		if got := fmt.Sprint(header["header"], trailer["trailer-bin"]); got != fmt.Sprint([]string{"a\x00b", ""}, []string{"a\x00b", ""}) || p.Addr == nil {
			t.Errorf("metadata %q, peer %v", got, p)
		}
	}
}

func TestStatuses(t *testing.T) {
	address := serve(t, NewServer(MaxReceive(100_000)), new(service))
	c := testgrpc.NewTestServiceClient(dial(t, address))
	in := request([]byte("detail"))
	in.ResponseStatus = &testgrpc.EchoStatus{Code: int32(codes.NotFound), Message: "nothing here"}
	_, err := c.UnaryCall(t.Context(), in)
	st := status.Convert(err)
	if st.Code() != codes.NotFound || st.Message() != "nothing here" || len(st.Details()) != 1 {
		t.Errorf("%v with %d details", st, len(st.Details()))
	}
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method without an implementation: %v", err)
	}
	if err := dial(t, address).Invoke(t.Context(), "/no.Service/Method", &testgrpc.Empty{}, &testgrpc.Empty{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown service: %v", err)
	}
	if _, err := c.UnaryCall(t.Context(), request(make([]byte, 100_001))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is too long: %v", err)
	}
	if _, err := testgrpc.NewTestServiceClient(dial(t, address, WithMaxReceive(1000))).UnaryCall(t.Context(), request(make([]byte, 1001))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an answer that is too long: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	in.ResponseStatus = &testgrpc.EchoStatus{Message: "wait"}
	if _, err := c.UnaryCall(ctx, in); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
}

func TestStreams(t *testing.T) {
	c := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), new(service))))
	both, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		body := bytes.Repeat([]byte{byte(i)}, i*i*200)
		if err := both.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: body}}); err != nil {
			t.Fatal(err)
		}
		out, err := both.Recv()
		if err != nil || !bytes.Equal(out.GetPayload().GetBody(), body) {
			t.Fatalf("message %d: %d bytes, %v", i, len(out.GetPayload().GetBody()), err)
		}
	}
	if err := both.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := both.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}

	up, err := c.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := up.Send(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, 20_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := up.CloseAndRecv(); err != nil || sum.GetAggregatedPayloadSize() != 2_000_000 {
		t.Errorf("%d bytes, %v", sum.GetAggregatedPayloadSize(), err)
	}

	in := &testgrpc.StreamingOutputCallRequest{}
	for i := range 60 {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: int32(i * 3000)})
	}
	down, err := c.StreamingOutputCall(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if out, err := down.Recv(); err != nil || len(out.GetPayload().GetBody()) != i*3000 {
			t.Fatalf("message %d: %d bytes, %v", i, len(out.GetPayload().GetBody()), err)
		}
	}
	if _, err := down.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestManyCallers makes calls of all sizes on one connection. Some callers give up.
func TestManyCallers(t *testing.T) {
	var buffers atomic.Int64
	batchio.CountBuffers(&buffers)
	defer batchio.CountBuffers(nil)
	impl := new(service)
	s := NewServer(MaxCalls(20))
	client := dial(t, serve(t, s, impl))
	c := testgrpc.NewTestServiceClient(client)
	var callers sync.WaitGroup
	for caller := range 100 {
		callers.Go(func() {
			for i := range 20 {
				n := []int{0, 64, 5000, 66_000}[(caller+i)%4]
				ctx, cancel := context.WithCancel(t.Context())
				if (caller+i)%7 == 0 {
					time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
				}
				body := bytes.Repeat([]byte{byte(caller)}, n)
				reply, err := c.UnaryCall(ctx, request(body))
				cancel()
				switch {
				case status.Code(err) == codes.Canceled && (caller+i)%7 == 0:
				case err != nil:
					t.Errorf("caller %d: %v", caller, err)
				case !bytes.Equal(reply.GetPayload().GetBody(), body):
					t.Errorf("caller %d got another's answer", caller)
				}
			}
		})
	}
	callers.Wait()
	_ = client.Close()
	s.GracefulStop()
	if n := buffers.Load(); n != 0 {
		t.Errorf("%d buffers are lost", n)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, new(service))
	go func() { _ = s.Serve(lis) }() // ends with Stop
	defer s.Stop()
	if _, err := testgrpc.NewTestServiceClient(dial(t, "unix:"+path)).UnaryCall(t.Context(), request([]byte("x"))); err != nil {
		t.Error(err)
	}
}
