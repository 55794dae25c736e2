package fastgrpc

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// ownCompressor is gzip by a name that nobody knows.
type ownCompressor struct{ encoding.Compressor }

func (ownCompressor) Name() string { return "own" }

var _ = func() struct{} { // before the tests run
	encoding.RegisterCompressor(ownCompressor{encoding.GetCompressor(gzip.Name)})
	return struct{}{}
}()

// choosyService sets its responses' compressor by either library's functions.
type choosyService struct {
	testgrpc.UnimplementedTestServiceServer
	set      func(context.Context, string) error
	accepted func(context.Context) ([]string, error)
	result   chan []string // the names accepted, and the errors of choosing one
}

func (s choosyService) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	names, err := s.accepted(ctx)
	if err != nil {
		return nil, err
	}
	var result []string
	for _, name := range []string{"own", gzip.Name} {
		if slices.Contains(names, name) {
			result = append(result, "accepted "+name)
		}
	}
	choose := func(name string) {
		if s.set(ctx, name) != nil {
			result = append(result, "not "+name)
		}
	}
	choose("unheard-of")
	choose("own")
	if in.FillUsername {
		_ = grpc.SendHeader(ctx, nil)
		choose(encoding.Identity)
	}
	s.result <- result
	return &testgrpc.SimpleResponse{Payload: in.Payload}, nil
}

// TestSetSendCompressor compares what a handler may choose with grpc-go.
func TestSetSendCompressor(t *testing.T) {
	ours := choosyService{set: SetSendCompressor, accepted: ClientSupportedCompressors, result: make(chan []string, 1)}
	theirs := choosyService{set: grpc.SetSendCompressor, accepted: grpc.ClientSupportedCompressors, result: make(chan []string, 1)}
	fast, err := fastClient(serveTest(t, NewServer(), ours), WithCompressors("own"))
	if err != nil {
		t.Fatal(err)
	}
	slow, err := theirClient(serveTest(t, grpc.NewServer(), theirs))
	if err != nil {
		t.Fatal(err)
	}
	for _, late := range []bool{false, true} {
		var results [2][]string
		var headers [2]metadata.MD
		for i, c := range []grpcClient{fast, slow} {
			in := request(make([]byte, 1000))
			in.FillUsername = late
			out, err := testgrpc.NewTestServiceClient(c).UnaryCall(testContext(t), in, grpc.Header(&headers[i]))
			if err != nil || len(out.GetPayload().GetBody()) != 1000 {
				t.Fatal(i, err)
			}
			results[i] = <-[]choosyService{ours, theirs}[i].result
		}
		if !slices.Equal(results[0], results[1]) {
			t.Errorf("fastgrpc: %q, grpc-go: %q", results[0], results[1])
		}
	}
	if SetSendCompressor(context.Background(), gzip.Name) == nil {
		t.Error("a compressor was set without a call")
	}
	if _, err := ClientSupportedCompressors(context.Background()); err == nil {
		t.Error("a client without a call accepts compressors")
	}
	if _, err := fastClient("x:1", WithCompressors("unheard-of")); err == nil {
		t.Error("a compressor is announced that is not registered")
	}
	if got := message.AcceptedCompressors(nil, encoding.GetCompressor("own")); got != "gzip,own" {
		t.Errorf("a call that uses a compressor announces %q", got)
	}
}

// TestHalfRequestPastDeadline sends half a unary request. Both libraries end it at its
// deadline, whether or not more of it comes; grpc-go's handler may be faster with a status
// than its timer with the reset.
func TestHalfRequestPastDeadline(t *testing.T) {
	for name, s := range map[string]grpcServer{"fastgrpc": NewServer(), "grpc-go": grpc.NewServer()} {
		target := serveTest(t, s, echo{})
		nc, err := net.Dial("tcp", target[len("passthrough:///"):])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		_, _ = io.WriteString(nc, http2.ClientPreface)
		fr := http2.NewFramer(nc, nc)
		_ = fr.WriteSettings()
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: append(requestTo("UnaryCall"), block("grpc-timeout", "20m")...)})
		_ = fr.WriteData(1, false, []byte{0, 0, 0, 0, 9, 1})
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if f.Header().StreamID == 0 {
				continue
			}
			reset, ok := f.(*http2.RSTStreamFrame)
			if answered := f.Header().Flags.Has(http2.FlagHeadersEndStream) && name == "grpc-go"; !answered && (!ok || reset.ErrCode != http2.ErrCodeCancel) {
				t.Errorf("%s answers half a request with %v", name, f)
			}
			break
		}
		if fast, ok := s.(*Server); ok {
			eventually(t, "for the call to be counted", func() bool { return fast.Counters().CallsFailed == 1 })
		}
	}
}
