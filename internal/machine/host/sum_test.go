package host

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.CheckPlus(t, Allowance.Plus, map[string]string{"CPUs": "those of several machines have the same numbers"})
}
