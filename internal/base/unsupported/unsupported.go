// Package unsupported defines the error for an operation that a machine, a wire or this program
// cannot do, in contrast to one that failed. The error says who cannot; the text that wraps it
// says what would make it possible. The package must not know who reports such errors.
package unsupported

import "errors"

// An Error is the text of a sentinel error. errors.Is finds errors.ErrUnsupported in it,
// so that a caller need not know who reported it.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// Is implements the optional interface of errors.Is.
func (Error) Is(target error) bool { return target == errors.ErrUnsupported }
