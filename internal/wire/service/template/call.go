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

// A Call holds the values that one client's templates may use: its fields and its exported
// methods, except Taken, Begin, BindForm and Fill. Only one goroutine may use it at a time.
type Call struct {
	N      int // the call's number, counted from 1 over all clients
	Client int // the client's number, from 0
	Row    map[string]string
	Taken  map[string]any // values from earlier answers

	random *rand.Rand
	funcs  template.FuncMap
	buffer bytes.Buffer
	now    time.Time // time of the call; zero until a template uses it
	uuid   string
}

// NewCall returns a client's call. random provides its random values.
func NewCall(client int, random *rand.Rand) *Call {
	c := &Call{Client: client, random: random}
	c.funcs = c.functions()
	return c
}

// Begin begins the call with the given number. The call gets a new time and a new UUID.
func (c *Call) Begin(number int) { c.N, c.now, c.uuid = number, time.Time{}, "" }

// BindForm returns a form that uses this client's functions. The form's header begins with the
// fields in the argument before.
func (c *Call) BindForm(f Form, before []service.Field) Form {
	f.Path, f.Body = c.bindText(f.Path), c.bindText(f.Body)
	f.Fixed.Header = slices.Concat(before, f.Fixed.Header)
	header := make([]Text, len(before), len(before)+len(f.Header))
	for _, value := range f.Header {
		header = append(header, c.bindText(value))
	}
	f.Header = header
	return f
}

func (c *Call) bindText(t Text) Text {
	if t.template != nil {
		clone, err := t.template.Clone()
		if err != nil {
			panic(err) // cannot happen: only html/template refuses to be cloned
		}
		t.template = clone.Funcs(c.funcs)
	}
	return t
}

// Fill returns the form's request for this call. Later calls do not change the request. The caller
// must not write to its parts without templates, because all requests share those parts.
func (c *Call) Fill(f *Form) (*service.Request, error) {
	made := new(f.Fixed)
	own := false // this request has its own copy of the header
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
			return made, fmt.Errorf("the template of %s made a value with a line break: %q", f.Header[i].Name, value)
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
		return made, fmt.Errorf("the template made the path %q: want a path that begins with a slash", made.Path)
	case strings.ContainsFunc(made.Path, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return made, fmt.Errorf("the template made the path %q, with a space or a control character: {{urlquery .Row.name}} escapes a value", made.Path)
	case f.Body.Fixed():
		return made, nil
	}
	value, err := c.render(&f.Body)
	made.Body = bytes.Clone(value)
	return made, err
}

// render returns a text for this call. The result is valid until the next render.
func (c *Call) render(t *Text) ([]byte, error) {
	c.buffer.Reset()
	if err := t.template.Execute(limitedBuffer{&c.buffer}, c); err != nil {
		return nil, t.executeError(err)
	}
	return c.buffer.Bytes(), nil
}

// Fields lists the names that a template may use after a dot, besides the columns of rows.
var Fields = []string{
	"N", "Client", "Row",
	"RequestNumber", "WorkerID", "Timestamp", "TimestampUnix", "TimestampUnixMilli", "TimestampUnixNano", "UUID",
}

// RequestNumber returns the call's number, counted from 0 as in ghz.
func (c *Call) RequestNumber() int { return c.N - 1 }

// WorkerID returns the client's number as text.
func (c *Call) WorkerID() string { return strconv.Itoa(c.Client) }

// Timestamp returns the time of the call in the form of RFC 3339.
func (c *Call) Timestamp() string { return c.time().Format(time.RFC3339) }

// TimestampUnix returns the time of the call in seconds.
func (c *Call) TimestampUnix() int64 { return c.time().Unix() }

// TimestampUnixMilli returns the time of the call in milliseconds.
func (c *Call) TimestampUnixMilli() int64 { return c.time().UnixMilli() }

// TimestampUnixNano returns the time of the call in nanoseconds.
func (c *Call) TimestampUnixNano() int64 { return c.time().UnixNano() }

// UUID returns a random UUID. It is the same during the whole call.
func (c *Call) UUID() string {
	if c.uuid == "" {
		c.uuid = c.newUUID()
	}
	return c.uuid
}

// time returns the time of the call. It reads the clock when it is first called.
func (c *Call) time() time.Time {
	if c.now.IsZero() {
		c.now = time.Now().UTC()
	}
	return c.now
}

// functions returns the template functions of one client. They share its random numbers.
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
		"mod":       modulo,
		"print":     printAll, "printf": printf,
	}
}

// builtins lists the allowed functions of text/template. Their results are never longer than their
// arguments.
var builtins = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len", "slice"}

// Functions lists the names of the functions that a template may use.
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

// randomInt returns a random number that is at least from and less than to, as in ghz.
func (c *Call) randomInt(from, to int) (int, error) {
	if from >= to || to-from <= 0 {
		return 0, fmt.Errorf("the range is %d to %d: the first number must be below the second", from, to)
	}
	return from + c.random.IntN(to-from), nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// randomString returns random letters and digits. The arguments are the length, or the smallest
// and largest length. Without arguments it uses 2 to 16, as in ghz.
func (c *Call) randomString(lengths ...int) (string, error) {
	shortest, longest := 2, 16
	switch {
	case len(lengths) > 2:
		return "", errors.New("want one argument (the length) or two (the shortest and the longest length)")
	case len(lengths) == 2:
		shortest, longest = lengths[0], lengths[1]
	case len(lengths) == 1 && lengths[0] > 0:
		shortest, longest = lengths[0], lengths[0]
	}
	if shortest < 0 || longest < shortest || longest > maxValue {
		return "", fmt.Errorf("the lengths are %d and %d: want lengths from 0 to %d, the shorter one first", shortest, longest, maxValue)
	}
	text := make([]byte, shortest+c.random.IntN(longest-shortest+1))
	for i := range text {
		text[i] = letters[c.random.IntN(len(letters))]
	}
	return string(text), nil
}

func modulo(a, b int) (int, error) {
	if b == 0 {
		return 0, errors.New("division by zero")
	}
	return a % b, nil
}

// quote formats a value as JSON: a text gets quotes and escapes.
func quote(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return boundedValue(strings.TrimSuffix(text.String(), "\n"))
}

// maxValue limits the length of a function's result, which may be another function's argument.
const maxValue = 1 << 20

func boundedValue(value string) (string, error) {
	if len(value) > maxValue {
		return "", fmt.Errorf("the value has %d bytes: want at most %d MiB", len(value), maxValue>>20)
	}
	return value, nil
}

// maxVerbs limits the verbs in a format, because each verb may write a whole argument.
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
	return boundedValue(fmt.Sprintf(format, args...))
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
	return boundedValue(all.String())
}

func urlquery(args ...any) (string, error) {
	value, err := printAll(args...)
	if err != nil {
		return "", err
	}
	return boundedValue(template.URLQueryEscaper(value))
}
