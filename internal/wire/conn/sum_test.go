package conn

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.ForgetsNothing(t, Counts.Plus, nil)
	sumtest.ForgetsNothing(t, Traffic.Plus, nil)
}
