//go:build !linux

package symbol

import (
	"errors"
	"os"
)

func (p *Process) openCompiled() (*os.File, func(), error) { return nil, nil, errors.ErrUnsupported }
