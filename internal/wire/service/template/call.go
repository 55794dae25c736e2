package template

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"text/template"
	"time"
)

// A Call holds the values that one client's templates name: its fields and exported methods,
// apart from Taken, Begin, Bind and Render. Only one goroutine may use it at a time.
type Call struct {
	N      int // from 1, over all clients
	Client int // from 0
	Row    map[string]string
	Taken  map[string]any // out of earlier answers

	random *rand.Rand
	funcs  template.FuncMap
	buffer bytes.Buffer
	now    time.Time // the zero value: not asked for yet in this call
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

// Bind returns the text with this client's functions.
func (c *Call) Bind(t Text) Text {
	if t.template != nil {
		clone, err := t.template.Clone()
		if err != nil {
			panic(err) // only html/template refuses to be cloned
		}
		t.template = clone.Funcs(c.funcs)
	}
	return t
}

// Render returns the text for this call. The bytes are valid until the next one is rendered.
func (c *Call) Render(t *Text) ([]byte, error) {
	c.buffer.Reset()
	if t.Fixed() {
		c.buffer.WriteString(t.source)
		return c.buffer.Bytes(), nil
	}
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
