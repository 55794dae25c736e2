package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// functions returns the functions of one client, which share its random numbers.
func (c *Call) functions() template.FuncMap {
	return template.FuncMap{
		"uuid": c.newUUID, "newUUID": c.newUUID,
		"randomInt": c.randomInt, "randomString": c.randomString,
		"now":       func() string { return c.time().Format("2006-01-02T15:04:05.000Z07:00") },
		"rfc3339":   c.Timestamp,
		"unix":      c.TimestampUnix,
		"unixMilli": c.TimestampUnixMilli,
		"json":      quote,
		"urlquery":  urlquery,
		"add":       func(a, b int) int { return a + b },
		"mod":       mod,
		"print":     printAll, "printf": printf,
	}
}

// builtins lists the functions of text/template that are kept: those that choose and compare. They
// return nothing longer than their arguments.
var builtins = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len", "slice"}

// Functions lists the functions that a template may call.
var Functions = func() []string {
	names := slices.Clone(builtins)
	for name := range (&Call{}).functions() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// newUUID returns a UUID of version 4: RFC 9562, section 5.4.
func (c *Call) newUUID() string {
	high, low := c.random.Uint64(), c.random.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&0xffffffffffff)
}

// randomInt returns a number from one bound to below the other, as in ghz.
func (c *Call) randomInt(from, to int) (int, error) {
	if from >= to || to-from <= 0 {
		return 0, fmt.Errorf("there is no whole number from %d to below %d", from, to)
	}
	return from + c.random.IntN(to-from), nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// randomString returns letters and digits: as many as its argument says, or a number between two
// arguments. Without a length it returns 2 to 16, as in ghz.
func (c *Call) randomString(lengths ...int) (string, error) {
	shortest, longest := 2, 16
	switch {
	case len(lengths) > 2:
		return "", errors.New("want a length, or the shortest and the longest")
	case len(lengths) == 2:
		shortest, longest = lengths[0], lengths[1]
	case len(lengths) == 1 && lengths[0] > 0:
		shortest, longest = lengths[0], lengths[0]
	}
	if shortest < 0 || longest < shortest || longest > maxValue {
		return "", fmt.Errorf("there is no text of %d to %d letters: want lengths from 0 to %d, the shorter first", shortest, longest, maxValue)
	}
	text := make([]byte, shortest+c.random.IntN(longest-shortest+1))
	for i := range text {
		text[i] = letters[c.random.IntN(len(letters))]
	}
	return string(text), nil
}

func mod(a, b int) (int, error) {
	if b == 0 {
		return 0, errors.New("division by zero")
	}
	return a % b, nil
}

// quote formats a value as JSON: a text gets its quotes and escapes.
func quote(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return bounded(strings.TrimSuffix(text.String(), "\n"))
}

// maxValue limits the value of a function, which may be the argument of another one.
const maxValue = 1 << 20

func bounded(value string) (string, error) {
	if len(value) > maxValue {
		return "", fmt.Errorf("the value has %d bytes: want at most %d MiB", len(value), maxValue>>20)
	}
	return value, nil
}

// maxVerbs limits the verbs of a format. Each may write a whole argument.
const maxVerbs = 64

func printf(format string, args ...any) (string, error) {
	if strings.Count(format, "%") > maxVerbs {
		return "", fmt.Errorf("a format with more than %d verbs", maxVerbs)
	}
	for _, arg := range args {
		if s, ok := arg.(string); ok && len(s) > maxValue/maxVerbs {
			return "", fmt.Errorf("an argument of %d bytes: want at most %d KiB", len(s), maxValue/maxVerbs>>10)
		}
	}
	return bounded(fmt.Sprintf(format, args...))
}

func printAll(args ...any) (string, error) {
	var all bytes.Buffer
	for _, arg := range args {
		if _, err := fmt.Fprint(&all, arg); err != nil {
			return "", err
		}
		if all.Len() > maxValue {
			break
		}
	}
	return bounded(all.String())
}

func urlquery(args ...any) (string, error) {
	value, err := printAll(args...)
	if err != nil {
		return "", err
	}
	return bounded(template.URLQueryEscaper(value))
}
