// Package units formats numbers and sizes for people. It must not know what they measure.
package units

import (
	"math"
	"strconv"
	"strings"
)

// Bytes formats a size in the largest unit that divides it without a remainder. It puts the
// separator between number and unit.
func Bytes(n int, separator string) string {
	switch {
	case n != 0 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + separator + "MiB"
	case n != 0 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + separator + "KiB"
	default:
		return strconv.Itoa(n) + separator + "B"
	}
}

// Thousands formats a whole number with commas between its thousands.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var grouped strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(digit)
	}
	return grouped.String()
}

// Number formats a number with three significant digits and commas between its thousands.
func Number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	scale := math.Pow10(int(math.Floor(math.Log10(math.Abs(v)))) - 2)
	v = math.Round(v/scale) * scale
	if math.Abs(v) < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return Thousands(int64(math.Round(v)))
}

// Percent formats a share in percent with three significant digits. Above 99 % these are digits of the rest, so that
// 100 % means all.
func Percent(share float64) string {
	if share <= 0.99 || share >= 1 {
		return Number(100*share) + " %"
	}
	decimals := 2 - int(math.Floor(math.Log10(100*(1-share))))
	return strings.TrimRight(strconv.FormatFloat(100*share, 'f', decimals, 64), "0") + " %"
}

// Time formats nanoseconds as microseconds, milliseconds or seconds, whichever fits best.
func Time(ns float64) string {
	switch {
	case ns >= 999.5e6:
		return Number(ns/1e9) + " s"
	case ns >= 999.5e3:
		return Number(ns/1e6) + " ms"
	default:
		return Number(ns/1e3) + " µs"
	}
}
