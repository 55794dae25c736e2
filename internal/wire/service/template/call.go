package template

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

	"wirelab.dev/internal/wire/service"
)

// A Call holds the values that one client's templates name: its fields and exported methods,
// apart from Taken, Begin, Bind and Fill. Only one goroutine may use it at a time.
type Call struct {
	N      int // the call's number, from 1, over all clients
	Client int // from 0
	Row    map[string]string
	Taken  map[string]any // values from earlier answers

	random *rand.Rand
	funcs  template.FuncMap
	buffer bytes.Buffer
	now    time.Time // the call's time; zero if no template has asked for it yet
	uuid   string
}

// NewCall returns the call of a client, whose random values come from random.
func NewCall(client int, random *rand.Rand) *Call {
	c := &Call{Client: client, random: random}
	c.funcs = c.functions()
	return c
}

// Begin begins the call with a number. Its time and UUID are new.
func (c *Call) Begin(number int) { c.N, c.now, c.uuid = number, time.Time{}, "" }

// Bind returns the form with this client's functions, and with fields before its own.
func (c *Call) Bind(f Form, before []service.Field) Form {
	f.Path, f.Body = c.bind(f.Path), c.bind(f.Body)
	f.Fixed.Header = slices.Concat(before, f.Fixed.Header)
	header := make([]Text, len(before), len(before)+len(f.Header))
	for _, value := range f.Header {
		header = append(header, c.bind(value))
	}
	f.Header = header
	return f
}

func (c *Call) bind(t Text) Text {
	if t.template != nil {
		clone, err := t.template.Clone()
		if err != nil {
			panic(err) // only html/template refuses to be cloned
		}
		t.template = clone.Funcs(c.funcs)
	}
	return t
}

// Fill returns the form's request for this call. Later calls do not change it. The caller must not
// write to its parts that are the same in every call: all requests share them.
func (c *Call) Fill(f *Form) (*service.Request, error) {
	made := new(f.Fixed)
	own := false // the header is this request's
	for i := range f.Header {
		if f.Header[i].Fixed() {
			continue
		}
		if !own {
			made.Header, own = slices.Clone(made.Header), true
		}
		value, err := c.render(&f.Header[i])
		if err != nil {
			return made, err
		}
		if bytes.ContainsAny(value, "\r\n\x00") {
			return made, fmt.Errorf("%s became a value with a line break in it: %q", f.Header[i].Name, value)
		}
		made.Header[i].Value = string(value)
	}
	if !f.Path.Fixed() {
		value, err := c.render(&f.Path)
		if err != nil {
			return made, err
		}
		made.Path = string(value)
	}
	switch {
	case !strings.HasPrefix(made.Path, "/"):
		return made, fmt.Errorf("the path became %q: want a slash at its beginning", made.Path)
	case strings.ContainsFunc(made.Path, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return made, fmt.Errorf("the path became %q, which has a space or a control character: {{urlquery .Row.name}} escapes a value", made.Path)
	case f.Body.Fixed():
		return made, nil
	}
	value, err := c.render(&f.Body)
	made.Body = bytes.Clone(value)
	return made, err
}

// render returns a text for this call. The bytes are valid until the next one is rendered.
func (c *Call) render(t *Text) ([]byte, error) {
	c.buffer.Reset()
	if err := t.template.Execute(limited{&c.buffer}, c); err != nil {
		return nil, t.executing(err)
	}
	return c.buffer.Bytes(), nil
}

// Fields lists the names that a template may use after a dot, besides the columns of a row.
var Fields = []string{
	"N", "Client", "Row",
	"RequestNumber", "WorkerID", "Timestamp", "TimestampUnix", "TimestampUnixMilli", "TimestampUnixNano", "UUID",
}

// RequestNumber returns the number of the call from 0, as ghz counts.
func (c *Call) RequestNumber() int { return c.N - 1 }

// WorkerID returns the client as a text.
func (c *Call) WorkerID() string { return strconv.Itoa(c.Client) }

// Timestamp returns the time of the call as RFC 3339 writes it.
func (c *Call) Timestamp() string { return c.time().Format(time.RFC3339) }

// TimestampUnix returns the time of the call in seconds.
func (c *Call) TimestampUnix() int64 { return c.time().Unix() }

// TimestampUnixMilli returns the time of the call in milliseconds.
func (c *Call) TimestampUnixMilli() int64 { return c.time().UnixMilli() }

// TimestampUnixNano returns the time of the call in nanoseconds.
func (c *Call) TimestampUnixNano() int64 { return c.time().UnixNano() }

// UUID returns a random UUID, the same one during the whole call.
func (c *Call) UUID() string {
	if c.uuid == "" {
		c.uuid = c.newUUID()
	}
	return c.uuid
}

// time returns the time of the call, which is read when it is first asked for.
func (c *Call) time() time.Time {
	if c.now.IsZero() {
		c.now = time.Now().UTC()
	}
	return c.now
}

// functions returns the functions for one client's templates, which share its random numbers.
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

// builtins lists the allowed functions of text/template: no result is longer than the arguments.
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

// randomString returns letters and digits. Its arguments are the length, or the least and the
// greatest length; without arguments 2 to 16, as in ghz.
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
		return "", fmt.Errorf("a format has more than %d verbs", maxVerbs)
	}
	for _, arg := range args {
		if s, ok := arg.(string); ok && len(s) > maxValue/maxVerbs {
			return "", fmt.Errorf("an argument has %d bytes: want at most %d KiB", len(s), maxValue/maxVerbs>>10)
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
