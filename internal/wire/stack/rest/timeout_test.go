package rest

import (
	"math"
	"testing"
	"time"
)

func FuzzTimeout(f *testing.F) {
	for _, d := range []time.Duration{0, 1, 99_999_999, 100_000_000, time.Second, time.Minute + 1, 1000 * time.Hour, math.MaxInt64} {
		f.Add(int64(d), encodeTimeout(d))
	}
	f.Add(int64(5), "99999999H")
	f.Add(int64(5), "+5S")
	f.Fuzz(func(t *testing.T, nanoseconds int64, text string) {
		if _, err := decodeTimeout(text); err == nil && (len(text) < 2 || len(text) > 9) {
			t.Errorf("%q was taken", text)
		}
		if nanoseconds < 0 {
			return
		}
		want := time.Duration(nanoseconds)
		got, err := decodeTimeout(encodeTimeout(want))
		if err != nil {
			t.Fatalf("%v as %q: %v", want, encodeTimeout(want), err)
		}
		// A unit is at most a thousand of the finer one, so that a number that
		// has outgrown eight digits has six in the next.
		if got < want || float64(got-want) > float64(want)*1e-5 {
			t.Errorf("%v arrived as %v", want, got)
		}
	})
}

func TestDecodeTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0n": 0, "250m": 250 * time.Millisecond, "3S": 3 * time.Second, "2M": 2 * time.Minute, "1H": time.Hour, "7u": 7000, "00000001S": time.Second,
		"99999999H": math.MaxInt64,
	} {
		if got, err := decodeTimeout(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "S", "5", "5s", "-5S", "+5S", " 5S", "5.5S", "123456789S", "5SS"} {
		if got, err := decodeTimeout(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}
