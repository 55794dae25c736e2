package units_test

import (
	"math"
	"testing"

	"wirelab.dev/internal/base/units"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int]string{
		0: "0B", 64: "64B", 1023: "1023B", 1024: "1KiB", 1536: "1536B", 64 << 10: "64KiB", 1 << 20: "1MiB", 1 << 30: "1024MiB",
	} {
		if got := units.Bytes(n, ""); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	if got := units.Bytes(4096, " "); got != "4 KiB" {
		t.Errorf("with a space: %s", got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", -999: "-999", 1000: "1,000", -1000: "-1,000", 1234567: "1,234,567"} {
		if got := units.Thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0 µs", 12: "0.012 µs", 1234: "1.23 µs", 999_499: "999 µs", 999_500: "1 ms", 82.7e6: "82.7 ms", 1.5e9: "1.5 s", 4321e9: "4,320 s",
	} {
		if got := units.Time(ns); got != want {
			t.Errorf("%g ns: %s, want %s", ns, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0 %", 0.001004: "0.1 %", 0.09: "9 %", 0.584167: "58.4 %", 0.99: "99 %", 0.995: "99.5 %", 0.999876: "99.9876 %", 1: "100 %", 39.2: "3,920 %",
	} {
		if got := units.Percent(share); got != want {
			t.Errorf("%g is %s, want %s", share, got, want)
		}
	}
	if got := units.Percent(math.Nextafter(1, 0)); got == "100 %" {
		t.Error("almost all is all")
	}
}
