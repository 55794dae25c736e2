package table

import (
	"testing"

	"wirelab.dev/internal/judge/analysis/matrix"
)

func TestACellBeyondCapacitySaysSo(t *testing.T) {
	for want, c := range map[string]matrix.Cell{
		"beyond capacity": {Trials: 3, Capacity: &matrix.Figure{Value: 1000}},
		"REFUSED":         {Trials: 3},
		"2/3":             {Trials: 3, Valid: 2, Capacity: &matrix.Figure{Value: 1000}},
	} {
		if got := validityText(line{cell: &c}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPlusMinus(t *testing.T) {
	for want, f := range map[string]matrix.Figure{
		"":      {Value: 10},
		"±10%":  {Value: 10, Interval: &matrix.Interval{Low: 9, High: 11}},
		"±0.5%": {Value: 10, Interval: &matrix.Interval{Low: 9.95, High: 10.05}},
		"±1%":   {Value: 10, Interval: &matrix.Interval{Low: 9.904, High: 10.096}},
		"±150%": {Value: 10, Interval: &matrix.Interval{Low: 5, High: 35}},
	} {
		if got := plusMinus(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTextsAreCut(t *testing.T) {
	for length, want := range map[int]string{7: "one…", 8: "one, two", 50: "one, two"} {
		if got := cutBetweenWords("one, two", length); got != want {
			t.Errorf("cut to %d: %q, want %q", length, got, want)
		}
	}
	if got := formatRanges([]int{1, 2, 4, 5, 6, 9}); got != "1,2,4-6,9" {
		t.Errorf("ranges: %s", got)
	}
}
