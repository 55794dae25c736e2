package fastgrpc

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// echo is the service of the tests. It returns what it receives.
type echo struct {
	testgrpc.UnimplementedTestServiceServer
}

func (echo) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

func (echo) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if md, _ := metadata.FromIncomingContext(ctx); len(md["echo"]) > 0 {
		_ = grpc.SetHeader(ctx, metadata.Pairs("echo", md["echo"][0]))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("echo-bin", md["echo"][0]))
	}
	if st := in.ResponseStatus; st != nil {
		return nil, status.Error(codes.Code(st.Code), st.Message)
	}
	if in.ResponseSize < 0 { // wait for the end of the call
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &testgrpc.SimpleResponse{Payload: in.Payload}, nil
}

func (echo) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, out grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	for _, p := range in.ResponseParameters {
		body := bytes.Repeat([]byte{7}, int(p.Size))
		if err := out.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: body}}); err != nil {
			return err
		}
	}
	return nil
}

func (echo) StreamingInputCall(in grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse]) error {
	sum := 0
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return in.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(m.GetPayload().GetBody())
	}
}

func (echo) FullDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{Payload: m.Payload}); err != nil {
			return err
		}
	}
}

// A grpcServer is either library's server.
type grpcServer interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

// grpcClient is either library's client.
type grpcClient interface {
	grpc.ClientConnInterface
	Close() error
}

// pair is a combination of client and server libraries.
type pair struct {
	name   string
	server func(...ServerOption) grpcServer
	client func(target string, opts ...ClientOption) (grpcClient, error)
}

func fastServer(opts ...ServerOption) grpcServer { return NewServer(opts...) }

func fastClient(target string, opts ...ClientOption) (grpcClient, error) {
	return NewClient(target, append([]ClientOption{WithTransportCredentials(insecure.NewCredentials())}, opts...)...)
}

func theirServer(...ServerOption) grpcServer { return grpc.NewServer() }

func theirClient(target string, _ ...ClientOption) (grpcClient, error) {
	return grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

var pairs = []pair{
	{"fast to fast", fastServer, fastClient},
	{"fast to grpc-go", theirServer, fastClient},
	{"grpc-go to fast", fastServer, theirClient},
}

// serve starts a server of echo on loopback and returns its target.
func serve(t testing.TB, s grpcServer) string {
	t.Helper()
	return serveTest(t, s, echo{})
}

// serveTest starts a server of any test service.
func serveTest(t testing.TB, s grpcServer, service testgrpc.TestServiceServer) string {
	t.Helper()
	testgrpc.RegisterTestServiceServer(s, service)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(lis)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return "passthrough:///" + lis.Addr().String()
}

func (p pair) start(t testing.TB) testgrpc.TestServiceClient {
	t.Helper()
	c, err := p.client(serve(t, p.server()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return testgrpc.NewTestServiceClient(c)
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // a starved machine under -race has taken one
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until a condition holds; it fails when testContext ends.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for ctx := testContext(t); !happened(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Errorf("waited in vain %s", what)
			return
		}
	}
}

// tlsForTests returns credentials of a server and of a client that trusts it.
func tlsForTests(t testing.TB) (server, client credentials.TransportCredentials) {
	t.Helper()
	const name = "server.test"
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(nil, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	server = credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	return server, credentials.NewClientTLSFromCert(roots, name)
}

func request(body []byte) *testgrpc.SimpleRequest {
	return &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: body}}
}

func eachPair(t *testing.T, f func(t *testing.T, c testgrpc.TestServiceClient)) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) { f(t, p.start(t)) })
	}
}

func TestUnarySizes(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		ctx := testContext(t)
		for _, size := range []int{0, 1, 100, 2047, 2048, 16380, 16384, 65536, 300_000, 3 << 20} {
			body := bytes.Repeat([]byte{byte(size)}, size)
			out, err := c.UnaryCall(ctx, request(body))
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if !bytes.Equal(out.GetPayload().GetBody(), body) {
				t.Fatalf("%d bytes came back as %d others", size, len(out.GetPayload().GetBody()))
			}
		}
		if _, err := c.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUnaryConcurrent(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		ctx := testContext(t)
		var callers sync.WaitGroup
		for i := range 64 {
			callers.Add(1)
			go func() {
				defer callers.Done()
				for j := range 100 {
					body := bytes.Repeat([]byte{byte(i), byte(j)}, 1+(i*j)%3000)
					out, err := c.UnaryCall(ctx, request(body))
					if err != nil {
						t.Errorf("caller %d: %v", i, err)
						return
					}
					if !bytes.Equal(out.GetPayload().GetBody(), body) {
						t.Errorf("caller %d got another's answer", i)
						return
					}
				}
			}()
		}
		callers.Wait()
	})
}

func TestStatusAndMetadata(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		ctx := testContext(t)
		text := "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n 100%"
		_, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: 9, Message: text}})
		if st := status.Convert(err); st.Code() != codes.FailedPrecondition || st.Message() != text {
			t.Errorf("status %v, want FailedPrecondition %q", err, text)
		}
		var header, trailer metadata.MD
		out := metadata.AppendToOutgoingContext(ctx, "echo", "some value", "data-bin", "\x00\xff\n")
		if _, err := c.UnaryCall(out, request(nil), grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(header["echo"], trailer["echo-bin"]); got != "[some value] [some value]" {
			t.Errorf("metadata came back as %s", got)
		}
		if _, err := c.UnimplementedCall(ctx, &testgrpc.Empty{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("unimplemented method: %v", err)
		}
	})
}

func TestStreams(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		ctx := testContext(t)
		t.Run("output", func(t *testing.T) { checkOutput(ctx, t, c) })
		t.Run("input", func(t *testing.T) { checkInput(ctx, t, c) })
		t.Run("duplex", func(t *testing.T) { checkDuplex(ctx, t, c) })
		t.Run("empty", func(t *testing.T) {
			s, err := c.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Fatalf("empty stream ended with %v", err)
			}
		})
	})
}

func checkOutput(ctx context.Context, t *testing.T, c testgrpc.TestServiceClient) {
	sizes := []int32{0, 31415, 9, 2653, 58979, 1 << 20, 5, 1 << 20, 1 << 20, 1 << 20}
	in := &testgrpc.StreamingOutputCallRequest{}
	for _, size := range sizes {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: size})
	}
	s, err := c.StreamingOutputCall(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if got := len(m.GetPayload().GetBody()); got != int(size) {
			t.Fatalf("message %d has %d bytes, want %d", i, got, size)
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("stream ended with %v", err)
	}
}

func checkInput(ctx context.Context, t *testing.T, c testgrpc.TestServiceClient) {
	s, err := c.StreamingInputCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for i := range 200 {
		size := i * 511 % 70000
		sum += size
		if err := s.Send(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.CloseAndRecv()
	if err != nil {
		t.Fatal(err)
	}
	if int(out.AggregatedPayloadSize) != sum {
		t.Fatalf("server counted %d bytes of %d", out.AggregatedPayloadSize, sum)
	}
}

func checkDuplex(ctx context.Context, t *testing.T, c testgrpc.TestServiceClient) {
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 300
	sent := make(chan error, 1)
	go func() {
		for i := range messages {
			body := bytes.Repeat([]byte{byte(i)}, i*97%40000)
			if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: body}}); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	for i := range messages {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if want := bytes.Repeat([]byte{byte(i)}, i*97%40000); !bytes.Equal(m.GetPayload().GetBody(), want) {
			t.Fatalf("message %d differs", i)
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("stream ended with %v", err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// TestExtraResponseEndsCall checks that a call that expects one message and gets more is
// also ended on the server, and leaves nothing behind.
func TestExtraResponseEndsCall(t *testing.T) {
	auditBuffers(t)
	gone := make(chan struct{})
	_, target := startFast(t, UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		defer close(gone)
		for {
			if err := s.SendMsg(request(make([]byte, 1000))); err != nil {
				return err
			}
		}
	}))
	c := dialFast(t, target)
	s, err := c.NewStream(testContext(t), &grpc.StreamDesc{ClientStreams: true}, "/one/answer")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(testgrpc.SimpleRequest)); status.Code(err) != codes.Internal {
		t.Errorf("many answers to one call: %v", err)
	}
	select {
	case <-gone:
	case <-testContext(t).Done():
		t.Error("the handler goes on")
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	eachPair(t, func(t *testing.T, c testgrpc.TestServiceClient) {
		ctx, cancel := context.WithTimeout(testContext(t), 30*time.Millisecond)
		defer cancel()
		if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: -1}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("deadline: %v", err)
		}
		ctx, cancel = context.WithCancel(testContext(t))
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("cancelled stream: %v", err)
		}
	})
}
