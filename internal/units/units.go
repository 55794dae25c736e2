// Package units writes numbers and sizes for people to read. It must not know
// what they are of.
package units

import (
	"strconv"
	"strings"
)

// Bytes writes a size in the largest unit that it is a whole number of, with the
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

// Thousands writes a whole number with commas between its thousands.
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
