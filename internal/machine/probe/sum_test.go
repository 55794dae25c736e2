package probe

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.ForgetsNothing(t, Window.Plus, nil)
}
