package stack

import (
	"context"
	"errors"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CallError is a call's failure as gRPC's users read it, with its cause still
// within reach of errors.As: a status alone is only a code and a text.
type CallError struct {
	status *status.Status
	cause  error
}

// Fail gives a cause the code that a caller of gRPC expects for it. The text is
// the cause's own.
func Fail(code codes.Code, cause error) error {
	return &CallError{status: status.New(code, cause.Error()), cause: cause}
}

// FailContext is Fail for a call whose context may have ended: what was met
// while it ended counts as that end.
func FailContext(ctx context.Context, cause error) error {
	ended := ctx.Err()
	_, limited := ctx.Deadline()
	switch {
	case errors.Is(ended, context.Canceled):
		return Fail(codes.Canceled, cause)
	// A dialer takes over the context's deadline and may notice it first: by
	// the context, or by its socket.
	case ended != nil, errors.Is(cause, context.DeadlineExceeded), limited && errors.Is(cause, os.ErrDeadlineExceeded):
		return Fail(codes.DeadlineExceeded, cause)
	default:
		return Fail(codes.Unavailable, cause)
	}
}

// Because adds to a call's failure what is known to have caused it.
func Because(failed, cause error) error {
	return &CallError{status: status.Convert(failed), cause: cause}
}

// Error is the text of the status, as grpc-go writes it.
func (e *CallError) Error() string { return e.status.Err().Error() }

// Unwrap is the cause.
func (e *CallError) Unwrap() error { return e.cause }

// GRPCStatus is what status.FromError finds.
func (e *CallError) GRPCStatus() *status.Status { return e.status }
