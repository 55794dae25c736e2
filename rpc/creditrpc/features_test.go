package creditrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

func TestCallOptions(t *testing.T) {
	client := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), new(service))))
	hundred := request(make([]byte, 100))
	for _, c := range []struct {
		name   string
		option grpc.CallOption
		want   codes.Code
	}{
		{"an answer that fits", grpc.MaxCallRecvMsgSize(200), codes.OK},
		{"an answer that is too long", grpc.MaxCallRecvMsgSize(100), codes.ResourceExhausted},
		{"a request that is too long", grpc.MaxCallSendMsgSize(100), codes.ResourceExhausted},
		{"a compressor", grpc.UseCompressor("gzip"), codes.Unimplemented},
		{"credentials that need security", grpc.PerRPCCredentials(token{secret: true}), codes.Unauthenticated},
		{"credentials that fail", grpc.PerRPCCredentials(token{err: status.Error(codes.NotFound, "no token")}), codes.Internal},
	} {
		if _, err := client.UnaryCall(t.Context(), hundred, c.option); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	var header metadata.MD
	if _, err := client.UnaryCall(t.Context(), hundred, grpc.PerRPCCredentials(token{}), grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(header["header"], " "); !strings.HasPrefix(got, "token for https://127.0.0.1:") || !strings.HasSuffix(got, "/grpc.testing.TestService") {
		t.Errorf("the credentials' metadata came as %q", got)
	}
}

// token is call credentials that the service echoes.
type token struct {
	secret bool
	err    error
}

func (k token) GetRequestMetadata(_ context.Context, uri ...string) (map[string]string, error) {
	return map[string]string{"echo": "token for " + uri[0]}, k.err
}

func (k token) RequireTransportSecurity() bool { return k.secret }

var _ credentials.PerRPCCredentials = token{}

func TestErrorsHaveTheirCause(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, lis.Addr().String())
	_ = lis.Close()
	_, err = testgrpc.NewTestServiceClient(c).UnaryCall(t.Context(), request(nil))
	if status.Code(err) != codes.Unavailable || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestSilentPeers lets one end fall silent, and waits for the other to notice.
func TestSilentPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hole, far := net.Pipe()
		c := dial(t, "127.0.0.1:1", WithKeepAlive(10*time.Second, 3*time.Second), WithDialer(func(context.Context, string) (net.Conn, error) { return hole, nil }))
		go func() { // a server that greets, and reads without answering
			_, _ = far.Write(frame.AppendHello(nil, frame.Settings{Version: frame.Version, Window: 1 << 20, PerStream: 1 << 18, Calls: 100, MaxMessage: 1 << 20, MaxMeta: 1 << 14}))
			_, _ = io.Copy(io.Discard, far)
		}()
		began := time.Now()
		_, err := testgrpc.NewTestServiceClient(c).UnaryCall(t.Context(), request(nil))
		if took := time.Since(began); status.Code(err) != codes.Unavailable || !errors.Is(err, errSilent) || took < 13*time.Second || took > 14*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		_ = c.Close()
	})
}

func TestSpinningEnds(t *testing.T) {
	address := serve(t, NewServer(Spin(time.Millisecond)), new(service))
	c := testgrpc.NewTestServiceClient(dial(t, address, WithSpin(time.Millisecond)))
	for range 100 {
		if _, err := c.UnaryCall(t.Context(), request([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSendOnALostConnection sends the only message of a call whose connection is gone.
// Generated code passes an error of that on, so the status must come from RecvMsg.
func TestSendOnALostConnection(t *testing.T) {
	for _, clientStreams := range []bool{false, true} {
		s := NewServer()
		c := dial(t, serve(t, s, &service{}))
		desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: clientStreams}
		stream, err := c.NewStream(t.Context(), desc, testgrpc.TestService_StreamingOutputCall_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if err := stream.RecvMsg(new(testgrpc.StreamingOutputCallResponse)); status.Code(err) != codes.Unavailable {
			t.Errorf("RecvMsg: %v, want Unavailable", err)
		}
		err = stream.SendMsg(&testgrpc.StreamingOutputCallRequest{})
		if want := map[bool]error{true: io.EOF}[clientStreams]; !errors.Is(err, want) {
			t.Errorf("SendMsg: %v, want %v", err, want)
		}
	}
}

// A headerless service sends a message without a header, and then nothing more.
type headerless struct {
	testgrpc.UnimplementedTestServiceServer
}

func (headerless) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Once a message has come, no header follows.
func TestHeaderReturnsWithTheFirstMessage(t *testing.T) {
	client := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), headerless{})))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if md, err := stream.Header(); err != nil || len(md) > 0 || ctx.Err() != nil {
		t.Errorf("%v, %v; %v", md, err, ctx.Err())
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("the message: %v", err)
	}
}
