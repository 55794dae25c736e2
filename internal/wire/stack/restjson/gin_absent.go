//go:build !gin

package restjson

import (
	"fmt"
	"net/http"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/stack"
)

func newGin(index) (http.Handler, error) {
	return nil, fmt.Errorf("router=gin: this program was built without Gin: `make build`, or go build -tags gin,nomsgpack ./cmd/wirelab: %w", stack.ErrUnsupported)
}

func ginSettings() []tuning.Setting { return nil }
