// Package format formats numbers with their units, paragraphs and columns of text.
package format

import (
	"math"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/units"
)

// Absent is printed for an unknown figure.
const Absent = "–"

// A unit is a scale for displaying a figure.
type unit struct {
	size float64
	name string
}

var (
	timeUnits = []unit{{1e-3, "ns"}, {1, "µs"}, {1e3, "ms"}, {1e6, "s"}} // size in microseconds
	byteUnits = []unit{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}
)

// Micros formats a time in the largest unit in which it is at least 1.
func Micros(us float64) string {
	if !Finite(us) {
		return Absent
	}
	if us == 0 {
		return "0"
	}
	u := largestUnit(us, timeUnits)
	return ThreeDigits(us/u.size) + u.name
}

// ByteSize formats a size as users write it: 64B, 4KiB.
func ByteSize(bytes int) string {
	size := float64(bytes)
	u := largestUnit(size, byteUnits)
	number := ThreeDigits(size / u.size)
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + u.name
}

// PerSecond formats a rate with separated thousands, and with a decimal below 100, where
// rounding could hide a difference.
func PerSecond(rate float64) string {
	switch {
	case !Finite(rate):
		return Absent
	case rate < 100:
		return ThreeDigits(rate)
	default:
		return units.Thousands(int64(math.Round(rate)))
	}
}

// Percent formats a share, rounded down: 100% means all.
func Percent(share float64) string {
	if !Finite(share) {
		return Absent
	}
	cut := math.Floor(share*10_000) / 100
	return strconv.FormatFloat(cut, 'f', -1, 64) + "%"
}

// PlainNumber formats a number without a unit.
func PlainNumber(value float64) string {
	if !Finite(value) {
		return Absent
	}
	if value >= 1000 {
		return units.Thousands(int64(math.Round(value)))
	}
	return ThreeDigits(value)
}

// largestUnit returns the largest unit in which value, rounded to three digits, is at least 1.
func largestUnit(value float64, units []unit) unit {
	for i := len(units) - 1; i > 0; i-- {
		if value/units[i].size >= 0.9995 {
			return units[i]
		}
	}
	return units[0]
}

// ThreeDigits formats three significant digits of a number below 1,000.
func ThreeDigits(value float64) string {
	decimals := 0
	switch {
	case value < 9.995:
		decimals = 2
	case value < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}

// Finite reports whether a figure is neither NaN nor infinite.
func Finite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

// ShortFunction returns the name of a function without the path of its package.
func ShortFunction(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
