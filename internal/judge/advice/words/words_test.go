package words

import "testing"

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.0879: "9 %", 0.1457: "15 %", 0.5: "50 %", 0.99999: "99.99 %", 1: "100 %", 1.3609: "136 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v is %s, want %s", share, got, want)
		}
	}
}

func TestShortFactor(t *testing.T) {
	for factor, want := range map[float64]string{0.94: "0.9", 1: "1.00", 1.024: "1.02", 1.048: "1.05", 1.06: "1.1", 2.04: "2.0", 13.2: "13"} {
		if got := ShortFactor(factor); got != want {
			t.Errorf("%v is written %q, want %q", factor, got, want)
		}
	}
}
