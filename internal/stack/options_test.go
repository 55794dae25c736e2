package stack

import (
	"testing"
	"time"

	"wirelab.dev/internal/scenario"
)

func TestCountAndSpan(t *testing.T) {
	v, err := scenario.ParseVariant("fake:conns=4,zero=0,half=1.5,delay=5ms,past=-1s,bare=5")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Count(v, "conns"); n != 4 || err != nil {
		t.Errorf("conns: %d, %v", n, err)
	}
	if n, err := Count(v, "unset"); n != 0 || err != nil {
		t.Errorf("an unset count: %d, %v", n, err)
	}
	if d, err := Span(v, "delay"); d != 5*time.Millisecond || err != nil {
		t.Errorf("delay: %v, %v", d, err)
	}
	if d, err := Span(v, "unset"); d != 0 || err != nil {
		t.Errorf("an unset span: %v, %v", d, err)
	}
	for _, key := range []string{"zero", "half", "delay"} {
		if n, err := Count(v, key); err == nil {
			t.Errorf("%s passed for the count %d", key, n)
		}
	}
	for _, key := range []string{"zero", "past", "bare"} {
		if d, err := Span(v, key); err == nil {
			t.Errorf("%s passed for the span %v", key, d)
		}
	}
}
