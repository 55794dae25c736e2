package flags

import (
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/excerpt"
)

// ParseClock parses a duration, or a number of seconds. It returns zero for any other text.
func ParseClock(text string) time.Duration {
	if IsNumber(text) {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// ShortDuration formats a duration without zero parts: 2m, not 2m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	if whole, is := strings.CutSuffix(text, "m0s"); is {
		text = whole + "m"
	}
	if whole, is := strings.CutSuffix(text, "h0m"); is {
		text = whole + "h"
	}
	return text
}

// FormatNumber formats a number without an exponent.
func FormatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Quote quotes a word for a shell, if it has to.
func Quote(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_…", r) && (r > 127 || !isLetter(byte(r)) && !isDigit(byte(r)))
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func isDigit(b byte) bool  { return b >= '0' && b <= '9' }

// Excerpt returns the beginning of a text's first line, for a message.
func Excerpt(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return excerpt.Start(line, 32)
}
