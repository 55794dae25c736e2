package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A span is the place of a value in a text, without surrounding white space.
type span struct{ from, to int }

func wholeSpan(text []byte) span {
	return span{len(text) - len(bytes.TrimLeft(text, " \t\r\n")), len(text)}
}

// topValues finds the JSON values in a text that holds several, one after another.
func topValues(text []byte) ([]span, error) {
	var values []span
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case err == nil:
			end := int(decoder.InputOffset())
			values = append(values, span{end - len(value), end})
		case len(bytes.TrimSpace(text[decoder.InputOffset():])) == 0:
			return values, nil
		default:
			return nil, syntaxError(text, err)
		}
	}
}

// A part is an element of a JSON array, or a member of an object.
type part struct {
	name       string // the name of an object's member
	key, value span
}

// partsOf finds the parts of an array or object. The text must be valid JSON.
func partsOf(text []byte, whole span) []part {
	var parts []part
	decoder := json.NewDecoder(bytes.NewReader(text[whole.from:whole.to]))
	at := func() int { return whole.from + int(decoder.InputOffset()) }
	first, err := decoder.Token()
	for err == nil && decoder.More() {
		var p part
		if first == json.Delim('{') {
			from := at()
			var key json.Token
			if key, err = decoder.Token(); err != nil {
				break
			}
			p.name, _ = key.(string) // keys are always strings
			p.key = span{from + bytes.IndexByte(text[from:at()], '"'), at()}
		}
		var value json.RawMessage
		if err = decoder.Decode(&value); err == nil {
			p.value = span{at() - len(value), at()}
			parts = append(parts, p)
		}
	}
	return parts
}

func checkSyntax(text []byte, s span) error {
	for at := s.from; at < s.to; {
		r, size := utf8.DecodeRune(text[at:s.to])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("%s: invalid UTF-8: found the byte %#x", formatPlace(text, at), text[at])
		}
		at += size
	}
	var value json.RawMessage
	if err := json.Unmarshal(text[s.from:s.to], &value); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			syntax.Offset += int64(s.from)
		}
		return syntaxError(text[:s.to], err)
	}
	return nil
}

// syntaxError returns an error with the place of the first invalid character.
func syntaxError(text []byte, err error) error {
	var syntax *json.SyntaxError
	at := len(text)
	if errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
		at = max(int(syntax.Offset)-1, 0)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the text ends before the JSON value is complete")
	}
	return fmt.Errorf("%s: this is not JSON: %w", formatPlace(text, at), err)
}

// formatPlace returns the line and column of an offset as text. Both count from 1.
func formatPlace(text []byte, at int) string {
	before := text[:min(at, len(text))]
	line := bytes.Count(before, []byte("\n"))
	return fmt.Sprintf("line %d, column %d", line+1, len(before)-bytes.LastIndexByte(before, '\n'))
}

func offsetOf(text []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return at + column - 1
}
