package fastgrpc

import "google.golang.org/grpc/status"

// causedError is a status error that wraps the connection's error, so that errors.Is
// and errors.As find it. A status alone keeps only a code and a text.
type causedError struct {
	status *status.Status
	cause  error
}

// withCause returns st as an error that wraps cause, which may be nil.
func withCause(st *status.Status, cause error) error {
	if st == nil || cause == nil {
		return st.Err()
	}
	return &causedError{st, cause}
}

// Error returns the status in grpc-go's format.
func (e *causedError) Error() string { return e.status.Err().Error() }

// Unwrap returns the connection's error.
func (e *causedError) Unwrap() error { return e.cause }

// GRPCStatus lets status.FromError find the status.
func (e *causedError) GRPCStatus() *status.Status { return e.status }
