package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/units"
)

// A Size is a number of bytes, written as `64`, `512B`, `4KiB` or `1MiB`. KB and
// MB are read as KiB and MiB, as in the published studies: in their figures
// 64 KB is 65,536 bytes.
type Size int

// parseSize reads a whole number and, if given, its unit.
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
		return 0, fmt.Errorf("size %q: the largest is just below 2 GiB", text)
	}
	return Size(n * factor), nil
}

func sizeError(text string) error {
	return fmt.Errorf("size %q: want whole bytes, as in 64, 512B, 4KiB or 1MiB", text)
}

// String prints the size in the largest unit that divides it.
func (s Size) String() string { return units.Bytes(int(s), " ") }

// MarshalText writes the size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text as parseSize does.
func (s *Size) UnmarshalText(text []byte) error { return parseInto(s, text, parseSize) }

// A Payload holds the sizes of a request and its response, written
// as one size if they are equal and otherwise as `64/4KiB`.
type Payload struct{ Request, Response Size }

// ParsePayload reads a size, or two with a slash between them.
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

// String writes the payload as ParsePayload reads it.
func (p Payload) String() string {
	if p.Request == p.Response {
		return p.Request.String()
	}
	return p.Request.String() + "/" + p.Response.String()
}

// MarshalText writes the payload as String does.
func (p Payload) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text as ParsePayload does.
func (p *Payload) UnmarshalText(text []byte) error { return parseInto(p, text, ParsePayload) }

// Duration is a time.Duration that is written as Go writes one: `100ms`, `2s`.
type Duration time.Duration

// String writes the duration as Go does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text as time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("duration %q: want a number and its unit, as in 100ms, 2s or 1m", text)
	}
	*d = Duration(parsed)
	return nil
}

// parseInto stores the result of parse. It is the body of every UnmarshalText here.
func parseInto[T any](into *T, text []byte, parse func(string) (T, error)) error {
	parsed, err := parse(string(text))
	if err == nil {
		*into = parsed
	}
	return err
}
