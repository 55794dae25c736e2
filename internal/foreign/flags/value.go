package flags

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/pattern"
)

// A Shape describes the valid values of a flag. It distinguishes the tools' meanings of a letter.
type Shape struct {
	name  string // the shape's name in messages
	takes arity
	is    func(string) bool // nil means that any value is valid
}

type arity int

const (
	noValue       arity = iota
	requiredValue       // in the same argument or in the next one
	optionalValue       // only in the same argument; may be missing
)

func (s Shape) fit(value string) bool {
	return s.takes == noValue || s.is == nil || s.is(value)
}

// Value returns the shape of values for which is(value) is true.
func Value(name string, is func(string) bool) Shape { return Shape{name, requiredValue, is} }

// Shapes that several tools use.
var (
	None   = Shape{}
	Maybe  = Shape{name: "true or false", takes: optionalValue}
	Text   = Value("text", nil)
	File   = Value("a file", nil)
	Header = Value("a header, as in 'Name: value'", nil)

	Number    = Value("a whole number", IsWhole)
	Rate      = Value("a number", IsNumber)
	Count     = Value("a number, as in 10000 or 10k", countPattern)
	Duration  = Value("a duration, as in 10s", IsDuration)
	Clock     = Value("a duration, as in 10s, or seconds", IsClock)
	Seconds   = Value("seconds", IsNumber)
	Method    = Value("a method, as in POST", methodPattern)
	User      = Value("name:password", userPattern)
	MediaType = Value("a content type, as in application/json", mediaPattern)
	Object    = Value("a JSON object, as in '{\"name\":\"value\"}'", isJSONObject)
)

var (
	countPattern    = pattern.Matcher(`^\d+[kKmM]?$`)
	methodPattern   = pattern.Matcher(`^[A-Za-z][A-Za-z-]*$`)
	userPattern     = pattern.Matcher(`^[^:/]+:`)
	mediaPattern    = pattern.Matcher(`^(\*|application|audio|example|font|haptics|image|message|model|multipart|text|video|x-[\w.+-]+)/`)
	durationPattern = pattern.Matcher(`^\d+(\.\d+)?(ns|us|µs|ms|s|m|h)$`)
)

// IsWhole reports whether a value is a whole number from 0.
func IsWhole(value string) bool {
	_, err := strconv.ParseUint(value, 10, 63)
	return err == nil
}

// IsNumber reports whether a value is a number from 0, without an exponent.
func IsNumber(value string) bool {
	n, err := strconv.ParseFloat(value, 64)
	return err == nil && n >= 0 && n < 1e15 && strings.Trim(value, "0123456789.") == ""
}

// IsDuration reports whether a value is a duration in Go's form, such as 1m30s.
func IsDuration(value string) bool {
	d, err := time.ParseDuration(value)
	return err == nil && d >= 0
}

// IsClock reports whether a value is a duration, or a number of seconds.
func IsClock(value string) bool { return IsNumber(value) || IsDuration(value) }

// IsIP reports whether a value is an IP address, with or without brackets.
func IsIP(value string) bool { return net.ParseIP(strings.Trim(value, "[]")) != nil }

func isJSONObject(value string) bool {
	return strings.HasPrefix(strings.TrimSpace(value), "{") && json.Valid([]byte(value))
}

// OneOfWords returns the shape of values that equal one of the words.
func OneOfWords(name, words string) Shape {
	return Value(name, func(value string) bool { return slices.Contains(strings.Fields(words), value) })
}

// NoneOf returns the shape of values for which all functions in others return false.
func NoneOf(name string, others ...func(string) bool) Shape {
	return Value(name, func(value string) bool {
		for _, other := range others {
			if other(value) {
				return false
			}
		}
		return true
	})
}

// ParseClock parses a duration, or a number of seconds. For any other text it returns zero.
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

// Quote quotes a word for a shell if necessary.
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
