package service

import (
	"fmt"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ParseField parses one line of a header, as in "Accept: text/html". It reports whether the line is
// a field.
func ParseField(line string) (f Field, is bool) {
	name, value, found := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return Field{}, false
	}
	return Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value}, true
}

// ParseFields parses the lines of a file with header fields. Its errors show no content of the
// file, which may be secret.
func ParseFields(text string) (all []Field, _ error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		f, is := ParseField(line)
		if !is {
			return nil, fmt.Errorf("line %d: want a name, a colon and a value, as in Accept: text/html", number)
		}
		all = append(all, f)
	}
	return all, nil
}
