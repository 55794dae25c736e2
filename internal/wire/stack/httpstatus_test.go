package stack

import (
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestHTTPStatusOfEveryCode(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if got := HTTPStatus(code); (got == http.StatusOK) != (code == codes.OK) || got < 200 {
			t.Errorf("%v is HTTP %d", code, got)
		}
	}
	if got := HTTPStatus(codes.Code(99)); got != http.StatusInternalServerError {
		t.Errorf("a code nobody knows is HTTP %d", got)
	}
}

func TestCodesOfForeignStatuses(t *testing.T) {
	for httpStatus := 100; httpStatus < 600; httpStatus++ {
		if CodeOfHTTP(httpStatus) == codes.OK {
			t.Errorf("HTTP %d became a success", httpStatus)
		}
	}
}

func TestCallOptionsWithoutMeaningAreRefused(t *testing.T) {
	if err := CheckCall(t.Context(), "toy", []grpc.CallOption{grpc.Header(nil), grpc.Trailer(nil), grpc.StaticMethod()}); err != nil {
		t.Errorf("an answer's metadata: %v", err)
	}
	if err := CheckCall(t.Context(), "toy", []grpc.CallOption{grpc.UseCompressor("gzip")}); status.Code(err) != codes.Unimplemented {
		t.Errorf("compression: %v", err)
	}
}
