package takeover

import (
	"strings"
	"time"
)

// parseClock reads a duration, or seconds; zero: it is neither.
func parseClock(text string) time.Duration {
	if isNumber(text) {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// length writes a duration as short as it is exact: 2m, not 2m0s.
func length(d time.Duration) string {
	text := d.String()
	if whole, is := strings.CutSuffix(text, "m0s"); is {
		text = whole + "m"
	}
	if whole, is := strings.CutSuffix(text, "h0m"); is {
		text = whole + "h"
	}
	return text
}
