// Package template holds the one template language of requests: of data typed for wirelab load,
// and of the steps of its users.
//
//	text ── Parse ──> Text ── Call.Bind ──> Text of one client ── Call.Render ──> bytes
//	       (names)  (shared)
//
// It is a part of Go's text/template. Parse looks up every name, so that a mistake is found
// before anything is sent. Whatever a template does ends: there is no {{range}}, and values and
// output are bounded.
//
// This package must not know what the texts are for.
package template

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// A Text is a template, or a text that is the same in every call. It may be shared.
type Text struct {
	Name     string // in errors, such as "the body"
	source   string
	template *template.Template // nil: the same in every call
}

// Fixed reports whether the text is the same in every call.
func (t *Text) Fixed() bool { return t.template == nil }

// at returns an error at a place of the source.
func (t *Text) at(offset int, format string, args ...any) error {
	before := t.source[:min(max(offset, 0), len(t.source))]
	return fmt.Errorf("%s, line %d, column %d: %s", t.Name, strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n'), fmt.Sprintf(format, args...))
}

// saidPlace matches the beginning of text/template's errors: the template's name, the line and,
// in errors of execution, the column from 0.
var saidPlace = regexp.MustCompile(`^template: .*?:(\d+):(?:(\d+):)? (?s:(.*))$`)

// parsing adds the place to an error of the parser, which knows the line. The column is that of
// the first template in it.
func (t *Text) parsing(err error) error {
	said := saidPlace.FindStringSubmatch(err.Error())
	if said == nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	line, _ := strconv.Atoi(said[1]) // the pattern has digits only
	start := 0
	for ; line > 1; line-- {
		start += strings.IndexByte(t.source[start:], '\n') + 1
	}
	end := len(t.source)
	if next := strings.IndexByte(t.source[start:], '\n'); next >= 0 {
		end = start + next
	}
	return t.at(start+max(strings.Index(t.source[start:end], "{{"), 0), "%s", said[3])
}

// executing adds the place to an error of execution.
func (t *Text) executing(err error) error {
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s: %w", t.Name, errTooLong)
	}
	said := saidPlace.FindStringSubmatch(err.Error())
	if len(said) != 4 || said[2] == "" {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	column, _ := strconv.Atoi(said[2]) // the pattern has digits only
	reason := said[3]
	if _, after, found := strings.Cut(reason, " at <"); found {
		reason = "at <" + after
	}
	return fmt.Errorf("%s, line %s, column %d: %s", t.Name, said[1], column+1, reason)
}

// maxOutput limits the output of a template.
const maxOutput = 16 << 20

var errTooLong = fmt.Errorf("it became longer than %d MiB", maxOutput>>20)

// limited is a buffer with a largest size.
type limited struct{ *bytes.Buffer }

func (l limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxOutput {
		return 0, errTooLong
	}
	return l.Buffer.Write(b)
}
