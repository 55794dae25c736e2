//go:build !unix

package batchio

import "errors"

// ReadsNow says that ReadNow and WriteNow are there.
const ReadsNow = false

// ReadNow is not there.
func ReadNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// WriteNow is not there.
func WriteNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
