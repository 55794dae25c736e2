package stacktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// randomBytes returns incompressible bytes. Equal seeds give equal bytes.
func randomBytes(sizeBytes int, seed byte) []byte {
	data := make([]byte, sizeBytes)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

func checkSizes(t testing.TB, s Subject) {
	stub := startService(t, s).stub()
	largest := 15 << 20
	if testing.Short() {
		largest = 2 << 20 // the race detector is slow with longer messages
	}
	for i, sizeBytes := range []int{0, 1, 127, 128, 4 << 10, 64<<10 - 1, 1 << 20, largest, 0} {
		body := randomBytes(sizeBytes, byte(i))
		out, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: body})
		if err != nil {
			t.Errorf("a call with %d bytes: %v", sizeBytes, err)
			continue
		}
		if !bytes.Equal(out.Body, body) {
			t.Errorf("sent %d bytes, received %d bytes that differ", sizeBytes, len(out.Body))
		}
	}
}

// checkAnswerReplaces checks that an answer replaces the content of the caller's message, as in
// grpc-go.
func checkAnswerReplaces(t testing.TB, s Subject) {
	client := startService(t, s).dial()
	out := &testpb.TestResponse{Index: 7, Metadata: map[string]string{"old": "value"}}
	err := client.Invoke(checkContext(t), testpb.TestService_Unary_FullMethodName, &testpb.TestRequest{Body: []byte("new")}, out)
	requireNoError(t, "Invoke", err)
	if string(out.Body) != "new" || out.Index != 0 || len(out.Metadata) != 0 {
		t.Errorf("the answer was merged into the old message: %v", out)
	}
}

func checkOversizeRequest(t testing.TB, s Subject) {
	stub := startService(t, s).stub()
	expectEcho(t, stub, "before")
	_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: make([]byte, stack.MaxMessageBytes+1)})
	expectCode(t, err, codes.ResourceExhausted)
	expectRecovery(t, stub)
}

func checkOversizeResponse(t testing.TB, s Subject) {
	r := startService(t, s)
	r.service.setUnaryHandler(func(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if string(in.Body) == "grow" {
			return &testpb.TestResponse{Body: make([]byte, stack.MaxMessageBytes+1)}, nil
		}
		return &testpb.TestResponse{Body: in.Body}, nil
	})
	stub := r.stub()
	expectEcho(t, stub, "before")
	_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: []byte("grow")})
	expectCode(t, err, codes.ResourceExhausted)
	expectRecovery(t, stub)
}

// checkConcurrent checks the answers only after all have arrived. So it finds an answer whose
// buffer was used again too early.
func checkConcurrent(t testing.TB, s Subject) {
	calls := 200
	if s.Lifecycle != conn.Kept {
		calls = 50 // each call needs a handshake, and a busy machine is slow at them
	}
	r := startService(t, s)
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Connections: 4}))
	var (
		all     sync.WaitGroup
		answers = make([]*testpb.TestResponse, calls)
		errs    = make([]error, calls)
	)
	ctx := checkContext(t)
	body := func(i int) string { return fmt.Sprintf("%d:%s", i, bytes.Repeat([]byte{byte(i)}, i*37)) }
	for i := range calls {
		all.Go(func() {
			answers[i], errs[i] = stub.Unary(ctx, &testpb.TestRequest{Body: []byte(body(i))})
		})
	}
	all.Wait()
	for i := range calls {
		if errs[i] != nil {
			t.Errorf("call %d: %v", i, errs[i])
		} else if got := string(answers[i].Body); got != body(i) {
			t.Errorf("call %d was answered with %.20q", i, got)
		}
	}
}

func checkUnknownMethod(t testing.TB, s Subject) {
	if s.lacks(t, OperationNames) {
		return
	}
	r := startService(t, s)
	client := r.dial()
	unknown := []string{"/wirelab.stacktest.v1.TestService/Nothing", "/wirelab.nobody.v1.Nothing/Nothing"}
	if !s.lacks(t, ServiceNames) {
		unknown = append(unknown, "/wirelab.nobody.v1.Nothing/Unary")
	}
	for _, method := range unknown {
		err := client.Invoke(checkContext(t), method, &testpb.TestRequest{Body: []byte("x")}, &testpb.TestResponse{})
		expectCode(t, err, codes.Unimplemented)
	}
	expectRecovery(t, testpb.NewTestServiceClient(client))
}

func checkStatusCodes(t testing.TB, s Subject) {
	stub := startService(t, s).stub()
	fail := func(code codes.Code, message string) {
		t.Helper()
		_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Code: int32(code), Message: message})
		if s.Lacks[StatusCodes] != "" {
			if err == nil {
				t.Errorf("a handler's %v became a success", code)
			}
			return
		}
		if got := status.Convert(err); got.Code() != code || got.Message() != message {
			t.Errorf("a handler's %v %q arrived as %v %q", code, message, got.Code(), got.Message())
		}
	}
	s.lacks(t, StatusCodes)
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		fail(code, "größer als erlaubt: 漢字 🜚")
	}
	for _, message := range []string{"", "100 %25", "two\nlines\r\n", "tab\tand \x00 nul", `"quoted" \ back`} {
		fail(codes.Internal, message)
	}
	expectRecovery(t, stub)
}

func checkStatusDetails(t testing.TB, s Subject) {
	if s.lacks(t, StatusCodes) {
		return // checkStatusCodes has checked this stack
	}
	without := s.lacks(t, StatusDetails)
	stub := startService(t, s).stub()
	for _, detail := range [][]byte{[]byte("why"), randomBytes(1000, 1)} {
		want, err := status.New(codes.FailedPrecondition, "see the details").WithDetails(wrapperspb.Bytes(detail))
		requireNoError(t, "WithDetails", err)
		_, err = stub.Unary(checkContext(t), &testpb.TestRequest{Code: int32(want.Code()), Message: want.Message(), Detail: detail})
		got := status.Convert(err)
		if without {
			if got.Code() != want.Code() || got.Message() != want.Message() {
				t.Errorf("the status arrived as %v", got)
			}
			continue
		}
		if !proto.Equal(got.Proto(), want.Proto()) {
			t.Errorf("the status arrived as %v, want %v", got.Proto(), want.Proto())
		}
	}
}

// checkPlainError checks a handler's error without a status. grpc-go sends Unknown.
func checkPlainError(t testing.TB, s Subject) {
	r := startService(t, s)
	r.service.setUnaryHandler(func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error) {
		return nil, errors.New("the disk is full")
	})
	_, err := r.stub().Unary(checkContext(t), &testpb.TestRequest{Body: []byte("x")})
	if s.lacks(t, StatusCodes) {
		if err == nil {
			t.Error("a handler's error became a success")
		}
		return
	}
	if got := status.Convert(err); got.Code() != codes.Unknown || got.Message() != "the disk is full" {
		t.Errorf("a handler's plain error arrived as %v %q, want Unknown and its text", got.Code(), got.Message())
	}
}

// sampleMetadata returns metadata that wires often handle wrongly: repeated keys, commas, bytes
// that are not text.
func sampleMetadata(prefix string) metadata.MD {
	return metadata.MD{
		prefix + "single":    {"one"},
		prefix + "multi":     {"first", "second, with a comma", "third"},
		prefix + "empty":     {""},
		prefix + "raw-bin":   {"\x00\xff\n,\x80"},
		prefix + "multi-bin": {"\x01", "", "\xfe\xfe\xfe"},
	}
}

// expectMetadata checks that got has every key of want with its values in order, among other keys.
func expectMetadata(t testing.TB, where string, got, want metadata.MD) {
	t.Helper()
	for key, values := range want {
		if !slices.Equal(got.Get(key), values) {
			t.Errorf("%s: %s arrived as %q, want %q", where, key, got.Get(key), values)
		}
	}
}

func checkRequestMetadata(t testing.TB, s Subject) {
	r := startService(t, s)
	seen := make(chan metadata.MD, 1)
	r.service.setUnaryHandler(func(ctx context.Context, _ *testpb.TestRequest) (*testpb.TestResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen <- md
		return &testpb.TestResponse{}, nil
	})
	_, err := r.stub().Unary(metadata.NewOutgoingContext(checkContext(t), sampleMetadata("x-")), &testpb.TestRequest{Body: []byte("x")})
	if s.lacks(t, RequestMetadata) {
		expectCode(t, err, codes.Unimplemented)
		return
	}
	requireNoError(t, "a call with metadata", err)
	expectMetadata(t, "request", <-seen, sampleMetadata("x-"))
}

func checkResponseMetadata(t testing.TB, s Subject) {
	without := s.lacks(t, ResponseMetadata)
	r := startService(t, s)
	r.service.setUnaryHandler(func(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		inHeader, inTrailer := grpc.SetHeader(ctx, sampleMetadata("h-")), grpc.SetTrailer(ctx, sampleMetadata("t-"))
		if (inHeader != nil) != without || (inTrailer != nil) != without {
			t.Errorf("SetHeader: %v, SetTrailer: %v; the stack declares that it lacks metadata: %v", inHeader, inTrailer, without)
		}
		if in.Code != 0 {
			return nil, status.Error(codes.Code(in.Code), in.Message)
		}
		return &testpb.TestResponse{}, nil
	})
	stub := r.stub()
	for _, code := range []codes.Code{codes.OK, codes.NotFound} {
		var header, trailer metadata.MD
		_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Code: int32(code), Body: []byte("x")}, grpc.Header(&header), grpc.Trailer(&trailer))
		if without {
			if len(header) > 0 || len(trailer) > 0 {
				t.Errorf("header %v and trailer %v on a stack that declares no metadata", header, trailer)
			}
			continue
		}
		expectCode(t, err, code)
		expectMetadata(t, "header of "+code.String(), header, sampleMetadata("h-"))
		expectMetadata(t, "trailer of "+code.String(), trailer, sampleMetadata("t-"))
	}
}

// checkStreamMetadata reads the header before the first message, and the trailer after the last
// message.
func checkStreamMetadata(t testing.TB, s Subject) {
	if !s.carries(t, stack.Bidi) || s.lacks(t, ResponseMetadata) || s.lacks(t, RequestMetadata) {
		return
	}
	r := serve(t, s, metadataEcho{newService()}, "127.0.0.1:0")
	stream, err := r.stub().Bidi(metadata.NewOutgoingContext(checkContext(t), sampleMetadata("x-")))
	requireNoError(t, "Bidi", err)
	header, err := stream.Header()
	requireNoError(t, "Header", err)
	expectMetadata(t, "header of a stream", header, sampleMetadata("x-"))
	requireNoError(t, "CloseSend", stream.CloseSend())
	expectEnd(t, stream)
	expectMetadata(t, "trailer of a stream", stream.Trailer(), sampleMetadata("t-"))
}

// metadataEcho sends received metadata back, first as a header and at the end also as a trailer.
type metadataEcho struct{ *testService }

func (a metadataEcho) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	seen := metadata.MD{}
	for key := range sampleMetadata("x-") {
		seen.Set(key, md.Get(key)...)
	}
	if err := stream.SetHeader(seen); err != nil {
		return err
	}
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	stream.SetTrailer(sampleMetadata("t-"))
	return a.testService.Bidi(stream)
}
