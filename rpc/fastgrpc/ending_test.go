package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// errForeign is an error of the program that is an io.EOF.
var errForeign = fmt.Errorf("the program's own: %w", io.EOF)

// eofService fails with io.EOF, or swallows the error of a message that it received.
type eofService struct {
	testgrpc.UnimplementedTestServiceServer
	swallow bool
}

func (eofService) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return nil, errForeign
}

func (s eofService) FullDuplexCall(stream grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	if s.swallow {
		_, _ = stream.Recv()
		return nil
	}
	return io.EOF
}

// eofCodec cannot decode.
type eofCodec struct{ encoding.CodecV2 }

func (eofCodec) Unmarshal(mem.BufferSlice, any) error { return io.EOF }

// eofCompressor cannot decompress. It is registered for the tests.
type eofCompressor struct{ onWrite, onRead error }

func (c eofCompressor) Name() string {
	if c.onWrite != nil {
		return "eof-on-write"
	}
	return "eof-on-read"
}

func (c eofCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	return nopCloser{w}, c.onWrite
}

func (c eofCompressor) Decompress(io.Reader) (io.Reader, error) { return nil, c.onRead }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

var _ = func() struct{} { // before the tests run
	encoding.RegisterCompressor(eofCompressor{onWrite: errForeign})
	encoding.RegisterCompressor(eofCompressor{onRead: io.EOF})
	return struct{}{}
}()

type eofCredentials struct{}

func (eofCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, errForeign
}
func (eofCredentials) RequireTransportSecurity() bool { return false }

// TestForeignEOF checks that a call which fails with an io.EOF of the program's own, or
// of the dialer's, is not read as a success, and fails with grpc-go's code.
func TestForeignEOF(t *testing.T) {
	codec := eofCodec{encoding.GetCodecV2(proto.Name)}
	for _, test := range []struct {
		name    string
		swallow bool
		dialErr error
		server  ServerOption
		theirs  grpc.ServerOption
		call    []grpc.CallOption
	}{
		{name: "handler"},
		{name: "handler that swallows", swallow: true, call: []grpc.CallOption{grpc.UseCompressor("eof-on-read")}},
		{name: "codec of the server", swallow: true, server: ForceServerCodecV2(codec), theirs: grpc.ForceServerCodecV2(codec)},
		{name: "codec of the client", call: []grpc.CallOption{grpc.ForceCodecV2(codec)}},
		{name: "compressor", call: []grpc.CallOption{grpc.UseCompressor("eof-on-write")}},
		{name: "credentials", call: []grpc.CallOption{grpc.PerRPCCredentials(eofCredentials{})}},
		{name: "dialer", dialErr: errForeign},
		{name: "dialer", dialErr: io.ErrUnexpectedEOF},
		{name: "dialer", dialErr: context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			var results [2][2]error
			for i := range results {
				lis, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				var server grpcServer = grpc.NewServer(grpc.EmptyServerOption{})
				var serverOptions []ServerOption
				if test.server != nil {
					server, serverOptions = grpc.NewServer(test.theirs), []ServerOption{test.server}
				}
				if i == 0 {
					server = NewServer(serverOptions...)
				}
				testgrpc.RegisterTestServiceServer(server, eofService{swallow: test.swallow})
				go func() { _ = server.Serve(lis) }()
				defer server.Stop()
				dial := func(ctx context.Context, _ string) (net.Conn, error) {
					if test.dialErr != nil {
						return nil, test.dialErr
					}
					return new(net.Dialer).DialContext(ctx, "tcp", lis.Addr().String())
				}
				var client grpcClient
				if i == 0 {
					client, err = fastClient("passthrough:///x", WithContextDialer(dial))
				} else {
					client, err = grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = client.Close() }()
				stub := testgrpc.NewTestServiceClient(client)
				_, results[i][0] = stub.UnaryCall(testContext(t), request([]byte("x")), test.call...)
				results[i][1] = bidiError(testContext(t), stub, test.call)
			}
			for kind, err := range results[0] {
				theirs := results[1][kind]
				if status.Code(err) != status.Code(theirs) || status.Code(err) == codes.OK {
					t.Errorf("fastgrpc fails with %v, grpc-go with %v", err, theirs)
				}
				for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, context.Canceled} {
					if errors.Is(err, end) {
						t.Errorf("%v (%T) is %v", err, err, end)
					}
				}
			}
		})
	}
}

// bidiError returns what a stream's first Recv fails with.
func bidiError(ctx context.Context, stub testgrpc.TestServiceClient, opts []grpc.CallOption) error {
	stream, err := stub.FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	if err := stream.Send(duplexRequest(1, 100)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.Recv()
	return err
}
