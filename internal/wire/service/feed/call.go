package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// call is what templates are about. Its fields and exported methods are those that a
// template may name.
type call struct {
	N      int // from 1, over all clients
	Client int // from 0
	Row    map[string]string

	random *rand.Rand
	now    time.Time // the zero value: not asked for yet in this call
	uuid   string
}

func (c *call) begin(number int) { c.N, c.now, c.uuid = number, time.Time{}, "" }

// fieldNames are what a template may name after a dot, beside the columns of a row.
var fieldNames = []string{
	"N", "Client", "Row",
	"RequestNumber", "WorkerID", "Timestamp", "TimestampUnix", "TimestampUnixMilli", "TimestampUnixNano", "UUID",
}

// RequestNumber counts from 0, as ghz does.
func (c *call) RequestNumber() int { return c.N - 1 }

// WorkerID is the client, as a text.
func (c *call) WorkerID() string { return strconv.Itoa(c.Client) }

// Timestamp is when the request was made, as RFC 3339 has it.
func (c *call) Timestamp() string { return c.time().Format(time.RFC3339) }

// TimestampUnix is in seconds.
func (c *call) TimestampUnix() int64 { return c.time().Unix() }

// TimestampUnixMilli is in milliseconds.
func (c *call) TimestampUnixMilli() int64 { return c.time().UnixMilli() }

// TimestampUnixNano is in nanoseconds.
func (c *call) TimestampUnixNano() int64 { return c.time().UnixNano() }

// UUID is the same in the whole call.
func (c *call) UUID() string {
	if c.uuid == "" {
		c.uuid = c.newUUID()
	}
	return c.uuid
}

// time is the same in the whole call.
func (c *call) time() time.Time {
	if c.now.IsZero() {
		c.now = time.Now().UTC()
	}
	return c.now
}

// functions are what a template may call. They belong to one client, since they share its
// random numbers.
func (c *call) functions() template.FuncMap {
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

// builtins are functions of text/template that are kept: they choose and compare, and what
// they return is no longer than what they are given.
var builtins = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len", "slice"}

// functionNames are all names that a template may call.
var functionNames = func() []string {
	names := slices.Clone(builtins)
	for name := range (&call{}).functions() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// newUUID is one of version 4: RFC 9562, section 5.4.
func (c *call) newUUID() string {
	high, low := c.random.Uint64(), c.random.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&0xffffffffffff)
}

// randomInt has the bounds of ghz: from is included, to is not.
func (c *call) randomInt(from, to int) (int, error) {
	if from >= to || to-from <= 0 {
		return 0, fmt.Errorf("there is no whole number from %d to below %d", from, to)
	}
	return from + c.random.IntN(to-from), nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// randomString has letters and digits: as many as its argument says, or between two
// arguments. Without a length, it has 2 to 16, as ghz makes them.
func (c *call) randomString(lengths ...int) (string, error) {
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

// quote writes a value as JSON: a text gets its quotes and escapes.
func quote(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return bounded(strings.TrimSuffix(text.String(), "\n"))
}
