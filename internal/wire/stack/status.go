package stack

import (
	"context"
	"errors"
	"net/http"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CallError is the failure of a call: a gRPC status, and the cause for errors.As.
type CallError struct {
	status *status.Status
	cause  error
}

// Fail returns a CallError with the status code and the cause's text.
func Fail(code codes.Code, cause error) error {
	return &CallError{status: status.New(code, cause.Error()), cause: cause}
}

// FailContext is like Fail. But if the call's context has ended, the context determines the code.
func FailContext(ctx context.Context, cause error) error {
	ended := ctx.Err()
	_, limited := ctx.Deadline()
	switch {
	case errors.Is(ended, context.Canceled):
		return Fail(codes.Canceled, cause)
	// A dialer may notice the deadline before ctx ends, through its own context or its socket.
	case ended != nil, errors.Is(cause, context.DeadlineExceeded), limited && errors.Is(cause, os.ErrDeadlineExceeded):
		return Fail(codes.DeadlineExceeded, cause)
	default:
		return Fail(codes.Unavailable, cause)
	}
}

// WithCause returns an error with the status of failed and the given cause.
func WithCause(failed, cause error) error {
	return &CallError{status: status.Convert(failed), cause: cause}
}

// Error returns the text of the status, as grpc-go writes it.
func (e *CallError) Error() string { return e.status.Err().Error() }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.cause }

// GRPCStatus returns the status; status.FromError calls it.
func (e *CallError) GRPCStatus() *status.Status { return e.status }

// StatusClientClosed is nginx's status for a client that disconnected. net/http has no name for it.
const StatusClientClosed = 499

// httpStatuses maps codes to HTTP statuses as google/rpc/code.proto does.
var httpStatuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           StatusClientClosed,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// HTTPStatus returns the HTTP status for a call that ended with the code.
func HTTPStatus(code codes.Code) int {
	if int(code) < len(httpStatuses) {
		return httpStatuses[code]
	}
	return http.StatusInternalServerError
}

// CodeOfHTTP returns the gRPC code for a failed call that has only an HTTP status.
func CodeOfHTTP(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return codes.Unimplemented // the server does not know the operation
	case http.StatusConflict:
		return codes.Aborted
	case http.StatusPreconditionFailed:
		return codes.FailedPrecondition
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case StatusClientClosed:
		return codes.Canceled
	case http.StatusInternalServerError:
		return codes.Internal
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return codes.Unavailable
	default:
		return codes.Unknown
	}
}
