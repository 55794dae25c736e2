package fastgrpc

import "google.golang.org/grpc/status"

// causedError is a call's failure with what its connection met still within reach
// of errors.Is and errors.As: a status alone is a code and a text.
type causedError struct {
	status *status.Status
	cause  error
}

// withCause is the error of a status; cause may be nil.
func withCause(st *status.Status, cause error) error {
	if st == nil || cause == nil {
		return st.Err()
	}
	return &causedError{st, cause}
}

// Error is the status as grpc-go prints one.
func (e *causedError) Error() string { return e.status.Err().Error() }

// Unwrap is the cause.
func (e *causedError) Unwrap() error { return e.cause }

// GRPCStatus is what package status looks for.
func (e *causedError) GRPCStatus() *status.Status { return e.status }
