package fastgrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestCompression(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		body := bytes.Repeat([]byte("again and again "), 10_000)
		out, err := c.UnaryCall(testContext(t), request(body), grpc.UseCompressor(gzip.Name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.GetPayload().GetBody(), body) {
			t.Error("came back different")
		}
		s, err := c.FullDuplexCall(testContext(t), grpc.UseCompressor(gzip.Name))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: body}}); err != nil {
				t.Fatal(err)
			}
			if m, err := s.Recv(); err != nil || !bytes.Equal(m.GetPayload().GetBody(), body) {
				t.Fatalf("stream: %v", err)
			}
		}
	})
}

// TestMetadataOfFailedCall checks that the header and trailer that a handler set before
// it failed arrive separately.
func TestMetadataOfFailedCall(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		ctx := metadata.AppendToOutgoingContext(testContext(t), "echo", "yes")
		in := &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(codes.NotFound)}}
		var header, trailer metadata.MD
		_, err := c.UnaryCall(ctx, in, grpc.Header(&header), grpc.Trailer(&trailer))
		if status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
		if len(header["echo"]) != 1 || len(trailer["echo-bin"]) != 1 || len(trailer["echo"]) != 0 {
			t.Errorf("header %v, trailer %v", header, trailer)
		}
	})
}

// TestCompressionSavesBytes checks that the calls of TestCompression are compressed.
func TestCompressionSavesBytes(t *testing.T) {
	s, target := startFast(t)
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	if _, err := c.UnaryCall(testContext(t), request(make([]byte, 1<<20)), grpc.UseCompressor(gzip.Name)); err != nil {
		t.Fatal(err)
	}
	if n := s.Counters().BytesIn; n > 1<<16 {
		t.Errorf("a compressed megabyte came as %d bytes", n)
	}
	_, err := c.UnaryCall(testContext(t), request(make([]byte, 5<<20)), grpc.UseCompressor(gzip.Name))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a bomb that unfolds beyond the limit: %v", err)
	}
	if _, err := c.UnaryCall(testContext(t), request(nil), grpc.UseCompressor("nonsense")); status.Code(err) != codes.Internal {
		t.Errorf("an unknown compressor: %v", err)
	}
}

func TestSizeLimits(t *testing.T) {
	_, target := startFast(t, MaxRecvMsgSize(1000), MaxHeaderListSize(64<<10))
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	for what, err := range map[string]error{
		"server receives": unaryError(t, c, 2000),
		"client sends":    unaryError(t, c, 500, grpc.MaxCallSendMsgSize(100)),
		"client receives": unaryError(t, c, 500, grpc.MaxCallRecvMsgSize(100)),
	} {
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := unaryError(t, c, 500); err != nil {
		t.Errorf("within the limits: %v", err)
	}
	big := metadata.AppendToOutgoingContext(testContext(t), "big", strings.Repeat("x", 100_000))
	if _, err := c.UnaryCall(big, request(nil)); status.Code(err) != codes.Internal {
		t.Errorf("metadata beyond the server's limit: %v", err)
	}
}

func unaryError(t *testing.T, c testgrpc.TestServiceClient, size int, opts ...grpc.CallOption) error {
	_, err := c.UnaryCall(testContext(t), request(make([]byte, size)), opts...)
	return err
}

func TestBadMetadata(t *testing.T) {
	_, target := startFast(t)
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	for _, pair := range [][2]string{{"with space", "v"}, {"key", "line\nbreak"}, {"key", "ü"}, {"", "v"}} {
		ctx := metadata.NewOutgoingContext(testContext(t), metadata.MD{pair[0]: {pair[1]}})
		if _, err := c.UnaryCall(ctx, request(nil)); status.Code(err) != codes.Internal {
			t.Errorf("%q: %v", pair, err)
		}
	}
}

func TestInterceptors(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	serverUnary := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			note(name + " " + info.FullMethod)
			return h(ctx, req)
		}
	}
	clientUnary := func(name string) grpc.UnaryClientInterceptor {
		return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			note(name)
			return next(ctx, method, req, reply, cc, opts...)
		}
	}
	serverCall := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		note("server stream " + info.FullMethod)
		return h(srv, ss)
	}
	clientStream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		note("client stream")
		return next(ctx, desc, cc, method, opts...)
	}
	_, target := startFast(t, UnaryInterceptor(serverUnary("s1"), serverUnary("s2")), StreamInterceptor(serverCall))
	c := testgrpc.NewTestServiceClient(dialFast(t, target,
		WithUnaryInterceptor(clientUnary("c1"), clientUnary("c2")), WithStreamInterceptor(clientStream)))
	if _, err := c.EmptyCall(testContext(t), &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	checkDuplex(testContext(t), t, c)
	want := []string{
		"c1", "c2", "s1 /grpc.testing.TestService/EmptyCall", "s2 /grpc.testing.TestService/EmptyCall",
		"client stream", "server stream /grpc.testing.TestService/FullDuplexCall",
	}
	if !slices.Equal(order, want) {
		t.Errorf("order was %q", order)
	}
}

// TestAlias checks that aliased messages are valid until the next read.
func TestAlias(t *testing.T) {
	auditBuffers(t)
	s := NewServer(AliasRequests())
	t.Run("calls", func(t *testing.T) {
		c := testgrpc.NewTestServiceClient(dialFast(t, serve(t, s), WithAliasedResponses()))
		checkDuplex(testContext(t), t, c)
		checkOutput(testContext(t), t, c)
		checkInput(testContext(t), t, c)
		for _, size := range []int{0, 100, 5000, 300_000} {
			body := bytes.Repeat([]byte{9}, size)
			out, err := c.UnaryCall(testContext(t), request(body))
			if err != nil || !bytes.Equal(out.GetPayload().GetBody(), body) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
}

// reversed is a CodecV2 whose encoding no other codec can decode.
type reversed struct{}

func (reversed) Name() string { return "reversed" }

func (reversed) Marshal(v any) (mem.BufferSlice, error) {
	data, err := proto.Marshal(v.(proto.Message))
	slices.Reverse(data)
	half := len(data) / 2
	return mem.BufferSlice{mem.SliceBuffer(data[:half]), mem.SliceBuffer(data[half:])}, err
}

func (reversed) Unmarshal(b mem.BufferSlice, v any) error {
	data := b.Materialize()
	slices.Reverse(data)
	return proto.Unmarshal(data, v.(proto.Message))
}

func TestForcedCodec(t *testing.T) {
	encoding.RegisterCodecV2(reversed{})
	_, target := startFast(t)
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	for _, o := range []grpc.CallOption{grpc.ForceCodecV2(reversed{}), grpc.CallContentSubtype("reversed")} {
		out, err := c.UnaryCall(testContext(t), request([]byte("hello")), o)
		if err != nil || string(out.GetPayload().GetBody()) != "hello" {
			t.Errorf("%T: %v %v", o, out, err)
		}
	}
	force, subtype := grpc.ForceCodecV2(reversed{}), grpc.CallContentSubtype("unheard-of")
	for _, both := range [][]grpc.CallOption{{force, subtype}, {subtype, force}} {
		// The server does not know it: the client must let the forced codec send it.
		if _, err := c.UnaryCall(testContext(t), request(nil), both...); status.Code(err) != codes.Unimplemented {
			t.Errorf("a forced codec and a content-subtype: %v, want the server's answer", err)
		}
	}
	if _, err := c.UnaryCall(testContext(t), request(nil), grpc.ForceCodecV2(unknown{})); status.Code(err) != codes.Unimplemented {
		t.Errorf("a codec that the server has not: %v", err)
	}
}

type unknown struct{ reversed }

func (unknown) Name() string { return "unknown" }

func TestUnknownService(t *testing.T) {
	_, target := startFast(t, UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		m := new(testgrpc.Payload)
		if err := s.RecvMsg(m); err != nil {
			return err
		}
		name, _ := grpc.MethodFromServerStream(s)
		m.Body = append(m.Body, name...)
		return s.SendMsg(m)
	}))
	out := new(testgrpc.Payload)
	c := dialFast(t, target)
	if err := c.Invoke(testContext(t), "/no/such", &testgrpc.Payload{Body: []byte("from ")}, out); err != nil {
		t.Fatal(err)
	}
	if got := string(out.Body); got != "from /no/such" {
		t.Errorf("got %q", got)
	}
}

func TestOnFinish(t *testing.T) {
	_, target := startFast(t)
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	ends := 0
	count := grpc.OnFinish(func(error) { ends++ })
	if _, err := c.EmptyCall(testContext(t), &testgrpc.Empty{}, count); err != nil {
		t.Fatal(err)
	}
	s, err := c.FullDuplexCall(testContext(t), count)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	for range 3 {
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if ends != 2 {
		t.Errorf("two calls ended %d times", ends)
	}
}
