package ending

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/h2"
)

// TestOnlyTrailersSucceed checks that each way to end a call but the server's OK has an
// error, and a status that is not OK.
func TestOnlyTrailersSucceed(t *testing.T) {
	fine := status.FromProto(nil) // OK
	for name, end := range map[string]Ending{
		"status":   FromTrailers("14", "", ""),
		"junk":     FromTrailers("x", "", ""),
		"response": FromBadResponse(codes.OK, "odd"),
		"reset":    FromReset(h2.Reset{}, batchio.Epoch),
		"lost":     FromLostConn(&net.TCPAddr{}, io.EOF),
		"OK error": FromError(rpccall.WithCause(fine, io.EOF)),
		"nil":      FromError(nil),
	} {
		if end.Err == nil || status.Code(end.Err) == codes.OK || end.Kind == Succeeded || errors.Is(end.Err, io.EOF) {
			t.Errorf("%s ends a call with %+v", name, end)
		}
	}
	for _, code := range []string{"0", "00"} {
		if end := FromTrailers(code, "", ""); end.Err != nil || end.Kind != Succeeded {
			t.Errorf("grpc-status %s ends a call with %+v", code, end)
		}
	}
}

func TestResetCodes(t *testing.T) {
	past, future := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	for _, c := range []struct {
		reset    http2.ErrCode
		deadline time.Time
		want     codes.Code
	}{
		{http2.ErrCodeCancel, time.Time{}, codes.Canceled},
		{http2.ErrCodeCancel, future, codes.Canceled},
		{http2.ErrCodeCancel, past, codes.DeadlineExceeded},
		{http2.ErrCodeRefusedStream, past, codes.Unavailable},
		{http2.ErrCodeInternal, past, codes.Internal},
	} {
		if got := status.Code(FromReset(h2.Reset{Code: c.reset}, c.deadline).Err); got != c.want {
			t.Errorf("reset with %s, deadline %v: got %s, want %s", c.reset, c.deadline, got, c.want)
		}
	}
}
