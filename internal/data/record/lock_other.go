//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package record

import (
	"errors"
	"fmt"
	"os"
)

// lock returns an error, because this system has no lock that ends with its process.
func lock(file *os.File) error {
	return fmt.Errorf("lock %s: this system has no flock: %w", file.Name(), errors.ErrUnsupported)
}
