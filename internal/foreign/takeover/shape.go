package takeover

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// shape is what may follow a flag. Where tools use one letter in different senses, the shape
// tells them apart.
type shape struct {
	name  string // in messages
	takes arity
	is    func(string) bool // nil: anything
}

type arity int

const (
	nothing  arity = iota
	aValue         // in the same argument or in the next
	maybeOne       // in the same argument, or none
)

func (s shape) fit(value string) bool {
	return s.takes == nothing || s.is == nil || s.is(value)
}

func valueOf(name string, is func(string) bool) shape { return shape{name, aValue, is} }

var (
	none   = shape{}
	maybe  = shape{name: "true or false", takes: maybeOne}
	text   = valueOf("text", nil)
	file   = valueOf("a file", nil)
	header = valueOf("a header, as in 'Name: value'", nil)

	number    = valueOf("a whole number", isWhole)
	rate      = valueOf("a number", isNumber)
	counted   = valueOf("a number, as in 10000 or 10k", countPattern.MatchString)
	duration  = valueOf("a duration, as in 10s", isDuration)
	clock     = valueOf("a duration, as in 10s, or seconds", isClock)
	seconds   = valueOf("seconds", isNumber)
	method    = valueOf("a method, as in POST", methodPattern.MatchString)
	user      = valueOf("name:password", userPattern.MatchString)
	mediaType = valueOf("a content type, as in application/json", mediaPattern.MatchString)
	object    = valueOf("a JSON object, as in '{\"name\":\"value\"}'", isObject)
)

var (
	countPattern    = regexp.MustCompile(`^\d+[kKmM]?$`)
	methodPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z-]*$`)
	userPattern     = regexp.MustCompile(`^[^:/]+:`)
	mediaPattern    = regexp.MustCompile(`^(\*|application|audio|example|font|haptics|image|message|model|multipart|text|video|x-[\w.+-]+)/`)
	durationPattern = regexp.MustCompile(`^\d+(\.\d+)?(ns|us|µs|ms|s|m|h)$`)
)

func isWhole(value string) bool {
	_, err := strconv.ParseUint(value, 10, 63)
	return err == nil
}

func isNumber(value string) bool {
	n, err := strconv.ParseFloat(value, 64)
	return err == nil && n >= 0 && n < 1e15 && strings.Trim(value, "0123456789.") == ""
}

func isDuration(value string) bool {
	d, err := time.ParseDuration(value)
	return err == nil && d >= 0
}

func isClock(value string) bool { return isNumber(value) || isDuration(value) }

func isObject(value string) bool {
	return strings.HasPrefix(strings.TrimSpace(value), "{") && json.Valid([]byte(value))
}

// looksLike is a text that is not of a shape that another tool has at the same place.
func butNot(name string, others ...func(string) bool) shape {
	return valueOf(name, func(value string) bool {
		for _, other := range others {
			if other(value) {
				return false
			}
		}
		return true
	})
}
