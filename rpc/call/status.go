package rpccall

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// StatusOf returns the status of a handler's error, as grpc-go computes it; nil means OK.
func StatusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

// TooLargeError returns the error for a message longer than its limit, with grpc-go's text.
func TooLargeError(message string, size, limit int) error {
	return status.Errorf(codes.ResourceExhausted, "%s larger than max (%d vs. %d)", message, size, limit)
}

// A causedError is a status error that wraps its cause. So errors.Is and errors.As find, for
// instance, ECONNREFUSED. A status alone keeps only a code and a text.
type causedError struct {
	status *status.Status
	cause  error
}

// WithCause returns st as an error that wraps cause, which may be nil.
func WithCause(st *status.Status, cause error) error {
	if st == nil || cause == nil {
		return st.Err()
	}
	return &causedError{st, cause}
}

// Error returns the status in grpc-go's format.
func (e *causedError) Error() string { return e.status.Err().Error() }

// Is finds errors in the cause, except errors that would mislead a program: io.EOF looks like the
// end of a stream, and context.Canceled like the end of the program's own context.
func (e *causedError) Is(target error) bool {
	switch target {
	case io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded:
		return false
	}
	return errors.Is(e.cause, target)
}

// As finds types in the cause.
func (e *causedError) As(target any) bool { return errors.As(e.cause, target) }

// GRPCStatus lets status.FromError find the status.
func (e *causedError) GRPCStatus() *status.Status { return e.status }
