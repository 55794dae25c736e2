package lab

import (
	"testing"
	"time"
)

func TestPatienceFlag(t *testing.T) {
	for text, want := range map[string]struct {
		Patience Patience
		more     string
	}{
		"0":       {Patience{}, "25%+10s"},
		"0s":      {Patience{}, "25%+10s"},
		"2m":      {Patience{Time: 2 * time.Minute}, "4m0s"},
		"25%":     {Patience{Share: 0.25}, "40%"},
		"25%+10s": {DefaultPatience, "40%+20s"},
		// What is more than much can be read too.
		"99.96875%": {Patience{Share: 0.9996875}, "99.984373%"},
		"2540400h":  {Patience{Time: 2_540_400 * time.Hour}, "2562047h47m16.854775806s"},
	} {
		var p Patience
		if err := p.Set(text); err != nil || p != want.Patience || p.Doubled() != want.more {
			t.Errorf("%s: %+v, more is %s, %v; want %+v, %s", text, p, p.Doubled(), err, want.Patience, want.more)
		}
		var again Patience
		if err := again.Set(p.String()); err != nil || again != p {
			t.Errorf("%s is written %s, and read back as %+v, %v", text, p.String(), again, err)
		}
		if err := again.Set(want.more); err != nil {
			t.Errorf("what %s advises cannot be read: %v", text, err)
		}
	}
	for _, text := range []string{"", "soon", "10", "-1s", "-5%", "100%", "NaN%", "%", "5%5s", "5%+", "5%+-1s", "1s+5%"} {
		var p Patience
		if err := p.Set(text); err == nil || p != (Patience{}) {
			t.Errorf("%q was read as %+v", text, p)
		}
	}
}
