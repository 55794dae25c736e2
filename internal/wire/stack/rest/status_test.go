package rest

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestStatusInTrailers(t *testing.T) {
	short, err := status.New(codes.NotFound, "zwei\nZeilen, größer").WithDetails(wrapperspb.String("why"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []*status.Status{status.New(codes.OK, ""), status.New(codes.Aborted, ""), short} {
		if got := throughTrailers(want); !proto.Equal(got.Proto(), want.Proto()) {
			t.Errorf("%v arrived as %v", want, got)
		}
	}

	huge, err := status.New(codes.NotFound, strings.Repeat("漢", 5000)).WithDetails(wrapperspb.String(strings.Repeat("x", 5000)))
	if err != nil {
		t.Fatal(err)
	}
	got := throughTrailers(huge)
	if got.Code() != codes.NotFound || !strings.HasPrefix(got.Message(), "漢漢漢") || !strings.Contains(got.Message(), "does not fit") {
		t.Errorf("a status too large for a trailer arrived as %v", got)
	}

	for _, trailer := range []http.Header{nil, {}, {codeTrailer: {"x"}}, {codeTrailer: {"-1"}}} {
		if got := statusIn(trailer); got.Code() != codes.Unavailable {
			t.Errorf("%v was taken for %v", trailer, got)
		}
	}
	if got := statusIn(http.Header{codeTrailer: {"5"}, statusTrailer: {"!"}}); got.Code() != codes.NotFound {
		t.Errorf("a damaged status lost its code: %v", got)
	}
}

func throughTrailers(st *status.Status) *status.Status {
	header, trailer := http.Header{}, http.Header{}
	putStatus(header, st)
	for name, values := range header {
		trailer[strings.TrimPrefix(name, http.TrailerPrefix)] = values
	}
	return statusIn(trailer)
}

func TestStatusWhoseMessageIsNoUTF8(t *testing.T) {
	response := &http.Response{Header: http.Header{"Content-Type": {protobuf.status}}}
	err := errorFromAnswer(response, protobuf.encodeStatus(status.New(codes.DataLoss, "bad \xff byte")))
	if got := status.Convert(err); got.Code() != codes.DataLoss || got.Message() != "bad \uFFFD byte" {
		t.Errorf("it arrived as %v", got)
	}
}
