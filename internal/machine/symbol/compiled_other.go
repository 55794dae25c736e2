//go:build !linux

package symbol

import (
	"errors"
	"os"
)

func openCompiled(int) (*os.File, error) { return nil, errors.ErrUnsupported }
