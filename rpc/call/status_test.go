package rpccall

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestStatusOf(t *testing.T) {
	for want, err := range map[codes.Code]error{
		codes.OK:               nil,
		codes.NotFound:         fmt.Errorf("wrapped: %w", status.Error(codes.NotFound, "gone")),
		codes.DeadlineExceeded: context.DeadlineExceeded,
		codes.Canceled:         context.Canceled,
		codes.Unknown:          errors.New("plain"),
	} {
		if got := StatusOf(err).Code(); got != want {
			t.Errorf("%v has the code %v, want %v", err, got, want)
		}
	}
}
