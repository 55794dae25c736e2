package plan

import (
	"testing"
	"time"
)

func TestUntilFlags(t *testing.T) {
	for text, want := range map[string]UntilTarget{"verdict": 0, "3%": 0.03, "0.5%": 0.005} {
		var g UntilTarget
		if err := g.Set(text); err != nil || g != want {
			t.Errorf("--until %s: %v, %v", text, float64(g), err)
		}
	}
	for _, text := range []string{"", "3", "0%", "-3%", "101%", "NaN%", "verdicts", "3s"} {
		var g UntilTarget
		if err := g.Set(text); err == nil {
			t.Errorf("--until %q was read as %v", text, float64(g))
		}
	}
	for text, want := range map[string]RepeatLimit{
		"50": {50, 0}, "20m": {DefaultMaxRepeats, 20 * time.Minute}, "50,90s": {50, 90 * time.Second},
	} {
		var m, again RepeatLimit
		if err := m.Set(text); err != nil || m != want {
			t.Errorf("--at-most %s: %+v, %v", text, m, err)
		}
		if err := again.Set(m.String()); err != nil || again != m {
			t.Errorf("--at-most %s is written %s, and read back as %+v, %v", text, m.String(), again, err)
		}
	}
	for _, text := range []string{"", "3", "-5", "1001", "0s", "-1m", "20m,30", "30,", ",20m", "30,20m,5", "many"} {
		m := RepeatLimit{Repeats: 7}
		if err := m.Set(text); err == nil || m != (RepeatLimit{Repeats: 7}) {
			t.Errorf("--at-most %q was read as %+v", text, m)
		}
	}
}
