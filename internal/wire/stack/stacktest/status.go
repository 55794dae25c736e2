package stacktest

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

const lastCode = codes.Unauthenticated

func checkStatusCodes(t testing.TB, s Subject) {
	stub := start(t, s).stub()
	fail := func(code codes.Code, message string) {
		t.Helper()
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{Code: int32(code), Message: message})
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
	for code := codes.Canceled; code <= lastCode; code++ {
		fail(code, "größer als erlaubt: 漢字 🜚")
	}
	for _, message := range []string{"", "100 %25", "two\nlines\r\n", "tab\tand \x00 nul", `"quoted" \ back`} {
		fail(codes.Internal, message)
	}
	expectRecovery(t, stub)
}

func checkStatusDetails(t testing.TB, s Subject) {
	if s.lacks(t, StatusCodes) {
		return // checkStatusCodes checks it
	}
	without := s.lacks(t, StatusDetails)
	stub := start(t, s).stub()
	for _, detail := range [][]byte{[]byte("why"), filling(1000, 1)} {
		want, err := status.New(codes.FailedPrecondition, "see the details").WithDetails(wrapperspb.Bytes(detail))
		noError(t, "WithDetails", err)
		_, err = stub.Unary(bounded(t), &testpb.TestRequest{Code: int32(want.Code()), Message: want.Message(), Detail: detail})
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

// checkPlainError has a handler return an error without a status: grpc-go sends Unknown.
func checkPlainError(t testing.TB, s Subject) {
	r := start(t, s)
	r.service.answerWith(func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error) {
		return nil, errors.New("the disk is full")
	})
	_, err := r.stub().Unary(bounded(t), &testpb.TestRequest{Body: []byte("x")})
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
