package words

import "testing"

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.0879: "9 %", 0.1457: "15 %", 0.5: "50 %", 0.99999: "99.99 %", 1: "100 %", 1.3609: "136 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v is %s, want %s", share, got, want)
		}
	}
}
