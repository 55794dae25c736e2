package live

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.CheckPlus(t, Calls.Plus, map[string]string{
		"SpanNS": "recent", "Ended": "recent", "Failed": "recent", "P50NS": "recent", "P90NS": "recent", "P99NS": "recent", "MaxNS": "recent",
		"InFlight": "of this moment", "Failures.Example": "there are none",
	})
}
