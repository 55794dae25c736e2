package scenario

import (
	"testing"
	"time"
)

// Every spelling that a flag ever had is read.
func TestSpellingsOfLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Limit{
		"p99<10ms":     {Figure: "p99", Sign: "<", Value: "10ms"},
		" P99 > 20 ms": {Figure: "p99", Sign: ">", Value: "20ms"},
		"p99 > +10 %":  {Figure: "p99", Sign: ">", Value: "+10%"},
		"p99=5ms":      {Figure: "p99", Sign: "=", Value: "5ms"},
		"req/s<1000":   {Figure: "req/s", Sign: "<", Value: "1000"},
	} {
		got, err := ParseLimit(text)
		if got.Text = ""; err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "p99", "p99>", ">5ms", "p99>=5ms", "p99<5ms<6ms", "a b"} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Goal{
		"p99<10ms":     {99, Duration(10 * time.Millisecond)},
		"P99.9 < 1 s":  {99.9, Duration(time.Second)},
		"p97.5=5ms":    {97.5, Duration(5 * time.Millisecond)},
		"p50<1m0.001s": {50, Duration(time.Minute + time.Millisecond)},
	} {
		if got, err := ParseGoal(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "p99>10ms", "p100<1ms", "p0<1ms", "p99<0s", "p99<-1ms", "p99<10", "mean<1ms", "p99<10%"} {
		if got, err := ParseGoal(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func FuzzGoal(f *testing.F) {
	for _, text := range []string{"p99<10ms", "p97.5=5ms", "P99.9 < 1 s", "p1e1<1h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		goal, err := ParseGoal(text)
		if err != nil {
			return
		}
		if again, err := ParseGoal(goal.String()); err != nil || again != goal {
			t.Errorf("%q: %+v, and again %+v, %v", text, goal, again, err)
		}
	})
}
