package stacktest

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// sample returns metadata that wires get wrong: repeated keys, commas, and bytes that
// are not text.
func sample(prefix string) metadata.MD {
	return metadata.MD{
		prefix + "single":    {"one"},
		prefix + "multi":     {"first", "second, with a comma", "third"},
		prefix + "empty":     {""},
		prefix + "raw-bin":   {"\x00\xff\n,\x80"},
		prefix + "multi-bin": {"\x01", "", "\xfe\xfe\xfe"},
	}
}

// expectMetadata expects every key of want, with its values in order. A wire may add
// others.
func expectMetadata(t testing.TB, where string, got, want metadata.MD) {
	t.Helper()
	for key, values := range want {
		if !slices.Equal(got.Get(key), values) {
			t.Errorf("%s: %s arrived as %q, want %q", where, key, got.Get(key), values)
		}
	}
}

func checkRequestMetadata(t testing.TB, s Subject) {
	r := start(t, s)
	seen := make(chan metadata.MD, 1)
	r.service.answerWith(func(ctx context.Context, _ *testpb.TestRequest) (*testpb.TestResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen <- md
		return &testpb.TestResponse{}, nil
	})
	_, err := r.stub().Unary(metadata.NewOutgoingContext(bounded(t), sample("x-")), &testpb.TestRequest{Body: []byte("x")})
	if s.lacks(t, RequestMetadata) {
		expectCode(t, err, codes.Unimplemented)
		return
	}
	noError(t, "a call with metadata", err)
	expectMetadata(t, "request", <-seen, sample("x-"))
}

func checkResponseMetadata(t testing.TB, s Subject) {
	without := s.lacks(t, ResponseMetadata)
	r := start(t, s)
	r.service.answerWith(func(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		inHeader, inTrailer := grpc.SetHeader(ctx, sample("h-")), grpc.SetTrailer(ctx, sample("t-"))
		if (inHeader != nil) != without || (inTrailer != nil) != without {
			t.Errorf("SetHeader: %v, SetTrailer: %v; is the wire said to lack them? %v", inHeader, inTrailer, without)
		}
		if in.Code != 0 {
			return nil, status.Error(codes.Code(in.Code), in.Message)
		}
		return &testpb.TestResponse{}, nil
	})
	stub := r.stub()
	for _, code := range []codes.Code{codes.OK, codes.NotFound} {
		var header, trailer metadata.MD
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{Code: int32(code), Body: []byte("x")}, grpc.Header(&header), grpc.Trailer(&trailer))
		if without {
			if len(header) > 0 || len(trailer) > 0 {
				t.Errorf("header %v and trailer %v from a wire that is said to carry none", header, trailer)
			}
			continue
		}
		expectCode(t, err, code)
		expectMetadata(t, "header of "+code.String(), header, sample("h-"))
		expectMetadata(t, "trailer of "+code.String(), trailer, sample("t-"))
	}
}

// checkStreamMetadata expects the header before the first message, and the trailer
// after the last.
func checkStreamMetadata(t testing.TB, s Subject) {
	if !s.carries(t, stack.Bidi) || s.lacks(t, ResponseMetadata) || s.lacks(t, RequestMetadata) {
		return
	}
	r := launch(t, s, annotated{newService()}, "127.0.0.1:0")
	stream, err := r.stub().Bidi(metadata.NewOutgoingContext(bounded(t), sample("x-")))
	noError(t, "Bidi", err)
	header, err := stream.Header()
	noError(t, "Header", err)
	expectMetadata(t, "header of a stream", header, sample("x-"))
	noError(t, "CloseSend", stream.CloseSend())
	expectEnd(t, stream)
	expectMetadata(t, "trailer of a stream", stream.Trailer(), sample("t-"))
}

// annotated sends the metadata it got as a header, at once, and a trailer.
type annotated struct{ *testService }

func (a annotated) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	seen := metadata.MD{}
	for key := range sample("x-") {
		seen.Set(key, md.Get(key)...)
	}
	if err := stream.SetHeader(seen); err != nil {
		return err
	}
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	stream.SetTrailer(sample("t-"))
	return a.testService.Bidi(stream)
}
