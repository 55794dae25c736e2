package conn

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.CheckPlus(t, Counts.Plus, nil)
	sumtest.CheckPlus(t, Traffic.Plus, nil)
}
