package stack

import (
	"context"
	"errors"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CallError is a call's failure with a gRPC status and its cause. errors.As finds
// the cause, which a status alone does not keep.
type CallError struct {
	status *status.Status
	cause  error
}

// Fail returns an error with the status code and the text of its cause.
func Fail(code codes.Code, cause error) error {
	return &CallError{status: status.New(code, cause.Error()), cause: cause}
}

// FailContext is Fail for a call whose context may have ended. If it has ended, the code
// follows from that, whatever the cause.
func FailContext(ctx context.Context, cause error) error {
	ended := ctx.Err()
	_, limited := ctx.Deadline()
	switch {
	case errors.Is(ended, context.Canceled):
		return Fail(codes.Canceled, cause)
	// A dialer has the context's deadline too, and may reach it first: by its
	// own context, or by its socket.
	case ended != nil, errors.Is(cause, context.DeadlineExceeded), limited && errors.Is(cause, os.ErrDeadlineExceeded):
		return Fail(codes.DeadlineExceeded, cause)
	default:
		return Fail(codes.Unavailable, cause)
	}
}

// WithCause returns a call's failure with its cause added.
func WithCause(failed, cause error) error {
	return &CallError{status: status.Convert(failed), cause: cause}
}

// Error returns the text of the status, as grpc-go writes it.
func (e *CallError) Error() string { return e.status.Err().Error() }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.cause }

// GRPCStatus returns the status; status.FromError calls it.
func (e *CallError) GRPCStatus() *status.Status { return e.status }
