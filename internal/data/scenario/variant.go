package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/units"
)

// A Variant is a stack with options, written as `stack:key=value,key=value`. Without options it is
// the stack in its usual configuration. Variants with equal String are equal.
type Variant struct {
	Stack   string
	Options []Setting // sorted by key; each key occurs once
}

// A Setting is one option of a variant.
type Setting struct{ Key, Value string }

// ParseVariant reads `stack` or `stack:key=value,key=value`.
func ParseVariant(text string) (Variant, error) {
	return parseNamed(text, variantWording{what: "variant", of: "stack", examples: "`tcp` or `tcp:buffers=pooled`"})
}

// ParseWorkload reads a workload with options in the form of a variant:
// `users:op=get-user,work=10ms`.
func ParseWorkload(text string) (Variant, error) {
	return parseNamed(text, variantWording{what: "workload", of: "workload", examples: "`echo` or `users:op=get-user,work=0s`"})
}

// A variantWording holds words for the errors about a variant or a workload.
type variantWording struct{ what, of, examples string }

func parseNamed(text string, g variantWording) (Variant, error) {
	name, options, given := strings.Cut(text, ":")
	if strings.Contains(name, "=") {
		return Variant{}, fmt.Errorf("%s %q: found an option without a %s before it; in a YAML list, put a %s that has commas into quotes", g.what, text, g.of, g.what)
	}
	if !isWord(name) {
		return Variant{}, fmt.Errorf("%s %q: a %s's name is lower-case letters, digits and dashes, as in %s", g.what, text, g.of, g.examples)
	}
	v := Variant{Stack: name}
	if !given {
		return v, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		key, value, ok := strings.Cut(option, "=")
		if !ok || !isWord(key) || value == "" {
			return Variant{}, fmt.Errorf("%s %q: %q is not of the form key=value", g.what, text, option)
		}
		if _, twice := v.Get(key); twice {
			return Variant{}, fmt.Errorf("%s %q: %s is set twice", g.what, text, key)
		}
		v.Options = append(v.Options, Setting{key, value})
	}
	slices.SortFunc(v.Options, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return v, nil
}

// ParseVariants reads variants separated by commas. A key=value without a stack's name belongs to
// the previous variant, so `tcp:buffers=pooled,inflight=50,rest` contains two variants.
func ParseVariants(text string) ([]Variant, error) {
	var texts []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		beforeEquals, _, isSetting := strings.Cut(part, "=")
		if isSetting && !strings.Contains(beforeEquals, ":") && len(texts) > 0 {
			texts[len(texts)-1] += "," + part
			continue
		}
		texts = append(texts, part)
	}
	variants := make([]Variant, 0, len(texts))
	for _, t := range texts {
		v, err := ParseVariant(t)
		if err != nil {
			return nil, err
		}
		variants = append(variants, v)
	}
	return variants, nil
}

func (v Variant) String() string {
	var b strings.Builder
	b.WriteString(v.Stack)
	separator := ":"
	for _, s := range v.Options {
		b.WriteString(separator + s.Key + "=" + s.Value)
		separator = ","
	}
	return b.String()
}

// Get returns the value of an option, and whether the option is set.
func (v Variant) Get(key string) (string, bool) {
	for _, s := range v.Options {
		if s.Key == key {
			return s.Value, true
		}
	}
	return "", false
}

// With returns the variant with an option added or replaced.
func (v Variant) With(key, value string) Variant {
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s Setting) bool { return s.Key == key })
	v.Options = append(v.Options, Setting{key, value})
	slices.SortFunc(v.Options, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return v
}

// MarshalText returns the text of String.
func (v Variant) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (v *Variant) UnmarshalText(text []byte) error { return parseInto(v, text, ParseVariant) }

func isWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// ConnectionMode says how the clients of a trial get their connections.
type ConnectionMode string

// The connection modes.
const (
	Shared    ConnectionMode = "shared"     // one connection for all clients
	PerWorker ConnectionMode = "per-worker" // one connection for each client
	Pool      ConnectionMode = "pool"       // N connections for all clients
	// One connection for each request, with a full handshake.
	New ConnectionMode = "new"
	// One connection for each request, which resumes a TLS session.
	Resumed ConnectionMode = "resumed"
	Early   ConnectionMode = "0rtt" // like Resumed, with the request in QUIC's first flight
	// Auto means up to N connections for all clients; the client decides how many. No scenario can
	// name it: an option of a stack selects it.
	Auto ConnectionMode = "auto"
)

// Options of every variant that the load engine and the worker implement.
const (
	ConnectionOption = "conn"     // connection mode
	InFlightOption   = "inflight" // maximum number of calls in flight
	ClientOption     = "client"   // whether clients avoid reaching the machine's limits

	BusyServerOption = "busy-server" // how long each handler computes first
	BusyClientOption = "busy-client" // how long the client computes in each call
)

// NaiveClient is the value of ClientOption for clients that ignore the machine's limits.
const NaiveClient = "naive"

// ConnectionModes lists the connection modes that scenarios can name.
func ConnectionModes() []string {
	return []string{string(Shared), string(PerWorker), string(Pool), "pool:4", string(New), string(Resumed), string(Early)}
}

// PerRequest reports whether every request opens its own connection.
func (m ConnectionMode) PerRequest() bool { return m == New || m == Resumed || m == Early }

// A Connection is a connection mode with its size. The zero value means the stack's default.
type Connection struct {
	Mode ConnectionMode
	// Size is the N of pool:N and auto:N. 0 means as many as clients, which is also the size to
	// which an HTTP/1.1 pool grows.
	Size int
}

// ParseConnection reads `shared`, `per-worker`, `pool`, `pool:N`, `new`, `resumed`, `0rtt`, and
// `auto:N`, which only records contain.
func ParseConnection(text string) (Connection, error) {
	mode, size, sized := strings.Cut(text, ":")
	c := Connection{Mode: ConnectionMode(mode)}
	switch {
	case (c.Mode == Pool || c.Mode == Auto) && sized:
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return Connection{}, fmt.Errorf("connection %q: %s:N takes a whole number from 1, as in %s:4", text, mode, mode)
		}
		c.Size = n
		return c, nil
	case !sized && (c.Mode == Shared || c.Mode == PerWorker || c.Mode == Pool || c.Mode.PerRequest()):
		return c, nil
	default:
		return Connection{}, fmt.Errorf("connection %q: want shared, per-worker, pool (one per client), pool:N, new, resumed or 0rtt", text)
	}
}

func (c Connection) String() string {
	if c.Size > 0 {
		return string(c.Mode) + ":" + strconv.Itoa(c.Size)
	}
	return string(c.Mode)
}

// ConnectionCount returns the number of connections for a number of clients. If every request has
// its own connection, it returns the greatest number of open connections.
func (c Connection) ConnectionCount(clients int) int {
	switch {
	case c.Mode == Shared:
		return 1
	case c.Size > 0:
		return c.Size
	default:
		return clients
	}
}

// MarshalText returns the text of String.
func (c Connection) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the text of MarshalText. An empty text means the stack's default.
func (c *Connection) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*c = Connection{}
		return nil
	}
	return parseInto(c, text, ParseConnection)
}

// A Size is a number of bytes, written as `64`, `512B`, `4KiB` or `1MiB`. KB and MB mean KiB and
// MiB, because 64 KB means 65,536 bytes in the published studies.
type Size int

func parseSize(text string) (Size, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.Atoi(text[:digits])
	if err != nil {
		return 0, sizeError(text)
	}
	factor := 1
	switch strings.TrimLeft(text[digits:], " ") {
	case "", "B":
	case "KiB", "KB":
		factor = 1 << 10
	case "MiB", "MB":
		factor = 1 << 20
	default:
		return 0, sizeError(text)
	}
	if n > math.MaxInt32/factor {
		return 0, fmt.Errorf("size %q: want less than 2 GiB", text)
	}
	return Size(n * factor), nil
}

func sizeError(text string) error {
	return fmt.Errorf("size %q: want whole bytes, as in 64, 512B, 4KiB or 1MiB", text)
}

// String formats the size in the largest unit that divides it without a remainder.
func (s Size) String() string { return units.Bytes(int(s), " ") }

// MarshalText returns the text of String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text with parseSize.
func (s *Size) UnmarshalText(text []byte) error { return parseInto(s, text, parseSize) }

// A Payload holds the payload sizes of a request and its response. Equal sizes are written as one
// size, different sizes as `64/4KiB`.
type Payload struct{ Request, Response Size }

// ParsePayload reads one size, or two sizes with a slash between them.
func ParsePayload(text string) (Payload, error) {
	request, response, apart := strings.Cut(text, "/")
	if !apart {
		response = request
	}
	q, err := parseSize(strings.TrimSpace(request))
	if err != nil {
		return Payload{}, err
	}
	r, err := parseSize(strings.TrimSpace(response))
	return Payload{q, r}, err
}

func (p Payload) String() string {
	if p.Request == p.Response {
		return p.Request.String()
	}
	return p.Request.String() + "/" + p.Response.String()
}

// MarshalText returns the text of String.
func (p Payload) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text with ParsePayload.
func (p *Payload) UnmarshalText(text []byte) error { return parseInto(p, text, ParsePayload) }

// Duration is a time.Duration whose text form is that of Go: `100ms`, `2s`.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the text of String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text with time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("duration %q: want a number and its unit, as in 100ms, 2s or 1m", text)
	}
	*d = Duration(parsed)
	return nil
}

// parseInto stores the result of parse in into. Every UnmarshalText of this package uses it.
func parseInto[T any](into *T, text []byte, parse func(string) (T, error)) error {
	parsed, err := parse(string(text))
	if err == nil {
		*into = parsed
	}
	return err
}
