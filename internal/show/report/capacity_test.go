package report

import (
	"testing"

	"wirelab.dev/internal/judge/analysis/matrix"
)

func TestACellBeyondCapacitySaysSo(t *testing.T) {
	for want, c := range map[string]matrix.Cell{
		"beyond capacity": {Trials: 3, Capacity: &matrix.Figure{Value: 1000}},
		"INVALID":         {Trials: 3},
		"2/3":             {Trials: 3, Valid: 2, Capacity: &matrix.Figure{Value: 1000}},
	} {
		if got := validity(line{cell: &c}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
