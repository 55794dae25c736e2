// Package unsupported defines the error for an operation that a machine, a wire or this program
// cannot do, in contrast to one that failed. The error names the machine, the wire or the program.
// The text that wraps the error says what would make the operation possible. The package must not
// know its users.
package unsupported

import "errors"

// An Error is the text of a sentinel error. errors.Is matches it with errors.ErrUnsupported, so a
// caller need not know the package that returned it.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// Is implements the optional interface of errors.Is.
func (Error) Is(target error) bool { return target == errors.ErrUnsupported }
