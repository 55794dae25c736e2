package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/expr-lang/expr/vm"
	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/excerpt"
)

// A Look evaluates expressions over one answer after the other. One goroutine uses it.
type Look struct {
	machine vm.VM
	names   names
	answer  Answer
	kind    Kind

	decoded    any
	decodedErr error
	isDecoded  bool
}

// names holds the values that an expression finds by name.
type names struct {
	Status  int                       `expr:"status"`
	Code    string                    `expr:"code"`
	Size    int                       `expr:"size"`
	Latency duration                  `expr:"latency"`
	Body    string                    `expr:"body"`
	JSON    func(string) (any, error) `expr:"json"`
	Header  func(string) string       `expr:"header"`
}

// NewLook returns a Look at answers of a kind.
func NewLook(kind Kind) *Look {
	l := &Look{kind: kind}
	l.names.JSON, l.names.Header = l.json, l.header
	return l
}

// At begins an answer, whose memory must stay as it is until the next one.
func (l *Look) At(a Answer) {
	l.answer = a
	l.decoded, l.decodedErr, l.isDecoded = nil, nil, false
	l.names.Status, l.names.Size, l.names.Latency = a.Status, int(a.SizeBytes), a.Latency
	if l.kind == GRPC {
		l.names.Code = codes.Code(a.Status).String()
	}
	l.names.Body = ""
}

// run evaluates an expression over the answer.
func (l *Look) run(e *expression) (any, error) {
	if e.readsText && l.names.Body == "" {
		l.names.Body = string(l.answer.Body)
	}
	result, err := l.machine.Run(e.program, &l.names)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		return nil, errors.New(withoutPlace(reason))
	}
	return result, nil
}

// json returns the value at a path of the body.
func (l *Look) json(text string) (any, error) {
	p, err := parsePath(text)
	if err != nil {
		return nil, err
	}
	if !l.isDecoded {
		l.isDecoded = true
		l.decoded, l.decodedErr = decodeJSON(l.answer.Body)
	}
	return p.of(l.decoded), l.decodedErr
}

func decodeJSON(body []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err == nil {
		if _, more := decoder.Token(); errors.Is(more, io.EOF) {
			return value, nil
		}
		err = errors.New("more follows behind it")
	}
	if len(body) == 0 {
		return nil, errors.New("the body is empty, and no JSON")
	}
	return nil, fmt.Errorf("the body is no JSON: %w: %s", err, short(string(body)))
}

// header returns the first value of a field. gRPC writes the names in small letters.
func (l *Look) header(name string) string {
	if values := l.answer.Header[strings.ToLower(name)]; len(values) > 0 {
		return values[0]
	}
	return l.answer.Header.Get(name)
}

// found describes the values that an expression looked at.
func (l *Look) found(e *expression) string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, name := range e.looked {
		switch name {
		case "status":
			add("status %d", l.answer.Status)
		case "code":
			add("code %s", codes.Code(l.answer.Status))
		case "size":
			add("size %d", l.answer.SizeBytes)
		case "latency":
			add("latency %v", l.answer.Latency)
		case "body":
			add("body %s", short(string(l.answer.Body)))
		}
	}
	for _, text := range e.paths {
		value, err := l.json(text)
		if err != nil {
			add("%v", err)
			break // of all paths alike
		}
		add("json(%s) %s", text, words(value))
	}
	for _, name := range e.fields {
		add("header(%q) %q", name, short(l.header(name)))
	}
	return strings.Join(found, ", ")
}

// words formats a value for people.
func words(value any) string {
	if value == nil {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return short(fmt.Sprint(value))
	}
	return short(string(text))
}

// short returns the beginning of a text as one line.
func short(text string) string {
	return excerpt.Start(strings.Join(strings.Fields(text), " "), 80)
}
