package report

import (
	"math"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/units"
)

// absent is shown where there is no figure.
const absent = "–"

// unit is a scale to show a figure in.
type unit struct {
	size float64
	name string
}

var (
	timeUnits = []unit{{1e-3, "ns"}, {1, "µs"}, {1e3, "ms"}, {1e6, "s"}} // of a microsecond
	byteUnits = []unit{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}
)

// micros shows a time in the largest unit in which it is at least 1.
func micros(us float64) string {
	if !finite(us) {
		return absent
	}
	if us == 0 {
		return "0"
	}
	u := largestUnit(us, timeUnits)
	return significant(us/u.size) + u.name
}

// byteSize shows a size as a user would write it: 64B, 4KiB.
func byteSize(bytes int) string {
	size := float64(bytes)
	u := largestUnit(size, byteUnits)
	number := significant(size / u.size)
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + u.name
}

// perSecond shows a rate with its thousands apart, and with a decimal where it
// is so small that the whole number would hide a difference.
func perSecond(rate float64) string {
	switch {
	case !finite(rate):
		return absent
	case rate < 100:
		return significant(rate)
	default:
		return units.Thousands(int64(math.Round(rate)))
	}
}

// percent shows a share, rounded down: 100% means every one.
func percent(share float64) string {
	if !finite(share) {
		return absent
	}
	cut := math.Floor(share*10_000) / 100
	return strconv.FormatFloat(cut, 'f', -1, 64) + "%"
}

// plain shows a number without a unit.
func plain(value float64) string {
	if !finite(value) {
		return absent
	}
	if value >= 1000 {
		return units.Thousands(int64(math.Round(value)))
	}
	return significant(value)
}

// largestUnit picks the largest unit in which value is at least 1 when rounded to
// three digits.
func largestUnit(value float64, units []unit) unit {
	for i := len(units) - 1; i > 0; i-- {
		if value/units[i].size >= 0.9995 {
			return units[i]
		}
	}
	return units[0]
}

// significant shows three significant digits of a number below 1,000.
func significant(value float64) string {
	decimals := 0
	switch {
	case value < 9.995:
		decimals = 2
	case value < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}

func finite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }
