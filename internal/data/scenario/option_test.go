package scenario

import (
	"strings"
	"testing"
	"time"
)

var declared = []Option{
	{Key: "codec", Values: []string{"proto", "json"}, Default: "proto"},
	{Key: "alias", Values: []string{"off", "on"}, Default: "off"},
	{Key: "conns", Parse: Count},
	{Key: "users", Default: "20", Parse: IntBetween(1, 50)},
	{Key: "work", Default: "10ms", Parse: Time},
	{Key: "delay", Parse: PositiveTime},
	{Key: "window", Parse: BytesUpTo(1 << 20)},
	{Key: "free"},
}

func readText(t *testing.T, text string) *Options {
	t.Helper()
	v, err := ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return ReadOptions("variant", v, declared)
}

func TestOptionsAreReadTyped(t *testing.T) {
	o := readText(t, "toy:alias=on,conns=4,work=0s,delay=5ms,window=64KiB,free=x")
	if err := o.Err(); err != nil {
		t.Fatal(err)
	}
	if o.Text("codec") != "proto" || !o.On("alias") || o.Text("free") != "x" || o.Has("codec") || !o.Has("conns") {
		t.Errorf("the texts are %q, %v, %q", o.Text("codec"), o.On("alias"), o.Text("free"))
	}
	if n, users := Value[int](o, "conns"), Value[int](o, "users"); n != 4 || users != 20 {
		t.Errorf("conns is %d and users %d", n, users)
	}
	if work, delay := Value[time.Duration](o, "work"), Value[time.Duration](o, "delay"); work != 0 || delay != 5*time.Millisecond {
		t.Errorf("work is %v and delay %v", work, delay)
	}
	if window := Value[int](o, "window"); window != 64<<10 {
		t.Errorf("window is %d", window)
	}
	unset := readText(t, "toy")
	if n, delay := Value[int](unset, "conns"), Value[time.Duration](unset, "delay"); n != 0 || delay != 0 {
		t.Errorf("unset options without a default are %d and %v", n, delay)
	}
}

func TestWrongOptionsAreExplained(t *testing.T) {
	for text, says := range map[string]string{
		"toy:codec=jsn":     "variant toy:codec=jsn: codec=jsn: did you mean json?",
		"toy:cnns=4":        `toy has no option "cnns"; did you mean conns?`,
		"toy:conns=0":       "conns=0: want a whole number from 1",
		"toy:conns=1.5":     "want a whole number from 1",
		"toy:users=51":      "users=51: want a whole number from 1 to 50",
		"toy:work=-1s":      "work=-1s: want a time, as in 5ms",
		"toy:work=5":        "want a time, as in 5ms",
		"toy:delay=0s":      "delay=0s: want a time above zero",
		"toy:window=2MiB":   "window=2MiB: want 1 B to 1 MiB",
		"toy:window=0":      "want 1 B to 1 MiB",
		"toy:window=x":      "window=x: ",
		"toy:alias=1,nix=2": `no option "nix"`, // the first error is kept
	} {
		if err := readText(t, text).Err(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", text, err, says)
		}
	}
	if err := ReadOptions("workload", Variant{Stack: "bare", Options: []Setting{{"a", "b"}}}, nil).Err(); err == nil || err.Error() != "workload bare:a=b: bare has no options" {
		t.Errorf("an option of what has none: %v", err)
	}
}

func TestUndeclaredOptionsPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an option that is not declared was read")
		}
	}()
	_ = readText(t, "toy").Text("typo")
}
