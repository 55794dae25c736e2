// Package expect judges answers of services by conditions that users write, such as
//
//	status == 200 and json(.items[0].price) > 3 and latency < 20ms
//
//	text ── Parse ──> Condition ──┐
//	                              ├─> Check: nil, or an UnmetError that says what was found
//	answer ─ Evaluator.SetAnswer ─┘
//
// A condition is an expression of github.com/expr-lang/expr. Two additional forms are rewritten
// before compilation: Go's durations, and the path of json without quotes. A compiled condition
// may be shared. An [Evaluator] belongs to one goroutine. A [Value] is an expression that computes
// a value from an answer.
//
// This package must not know who sent the request, nor the wire protocol.
package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/excerpt"
)

// A Kind is the protocol of an answer.
type Kind int

// The kinds of answers.
const (
	HTTP Kind = iota
	GRPC
)

// An Answer holds the parts of an answer that conditions read.
type Answer struct {
	Kind      Kind
	Status    int // HTTP status or gRPC code
	SizeBytes int64
	Latency   time.Duration
	// Header and Body may stay empty if no expression [Uses] them.
	Header http.Header
	Body   []byte
}

// Uses lists the parts of an answer that an expression reads.
type Uses struct{ Status, Latency, Header, Body bool }

// Plus returns the parts that u or other contains.
func (u Uses) Plus(other Uses) Uses {
	return Uses{
		Status: u.Status || other.Status, Latency: u.Latency || other.Latency,
		Header: u.Header || other.Header, Body: u.Body || other.Body,
	}
}

// A Condition states what a correct answer must fulfil. It is safe for concurrent use.
type Condition struct{ *expression }

// Parse compiles a condition on answers of a kind. An error with a position is a [*Mistake].
func Parse(text string, kind Kind) (*Condition, error) {
	e, err := compile(text, kind, expr.AsBool())
	if err != nil {
		return nil, err
	}
	return &Condition{e}, nil
}

// String returns the expression as its user wrote it.
func (e *expression) String() string { return e.text }

// Uses returns the parts of an answer that the expression reads.
func (e *expression) Uses() Uses { return e.uses }

// Check returns nil if the answer meets the condition, otherwise an [*UnmetError].
func (c *Condition) Check(l *Evaluator) error {
	result, err := l.run(c.expression)
	if err == nil && result == true {
		return nil
	}
	return l.newUnmetError(c.expression, err)
}

// An UnmetError is the error of an answer that does not meet a condition.
type UnmetError struct {
	Condition string
	Found     string
}

// Error implements error. The text leaves out the condition, because the caller knows it.
func (u *UnmetError) Error() string { return "found " + u.Found }

// A Value is an expression that computes a value from an answer. It is safe for concurrent use.
type Value struct{ *expression }

// ParseValue compiles an expression that computes a value from answers of a kind.
func ParseValue(text string, kind Kind) (*Value, error) {
	e, err := compile(text, kind, expr.AsAny())
	if err != nil {
		return nil, err
	}
	return &Value{e}, nil
}

// Of computes the value from the answer. It returns nil if the answer lacks the value.
func (v *Value) Of(l *Evaluator) (any, error) {
	result, err := l.run(v.expression)
	if err == nil && result != nil && result != "" {
		return result, nil
	}
	return nil, l.newUnmetError(v.expression, err)
}

// An Evaluator evaluates expressions over one answer after another. Only one goroutine may use it.
type Evaluator struct {
	machine vm.VM
	names   namedValues
	answer  Answer
	paths   map[string]path // parsed paths, by their text in the expression

	decoded    any
	decodedErr error
	isDecoded  bool
}

// namedValues holds the values that an expression can use by name.
type namedValues struct {
	Status  int                       `expr:"status"`
	Code    string                    `expr:"code"`
	Size    int                       `expr:"size"`
	Latency time.Duration             `expr:"latency"` // expressions compare it only with durations
	Body    string                    `expr:"body"`
	JSON    func(string) (any, error) `expr:"json"`
	Header  func(string) string       `expr:"header"`
}

// NewEvaluator returns an evaluator.
func NewEvaluator() *Evaluator {
	l := &Evaluator{paths: map[string]path{}}
	l.names.JSON, l.names.Header = l.json, l.header
	return l
}

// SetAnswer sets the next answer. The caller must not change its memory until the next SetAnswer.
func (l *Evaluator) SetAnswer(a Answer) {
	l.answer = a
	l.decoded, l.decodedErr, l.isDecoded = nil, nil, false
	l.names.Status, l.names.Size, l.names.Latency = a.Status, int(a.SizeBytes), a.Latency
	if a.Kind == GRPC {
		l.names.Code = codes.Code(a.Status).String()
	}
	l.names.Body = ""
}

func (l *Evaluator) run(e *expression) (any, error) {
	if e.readsText && l.names.Body == "" {
		l.names.Body = string(l.answer.Body)
	}
	result, err := l.machine.Run(e.program, &l.names)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		return nil, errors.New(withoutPosition(reason))
	}
	return result, nil
}

func (l *Evaluator) json(text string) (any, error) {
	p, known := l.paths[text]
	if !known {
		var err error
		if p, err = parsePath(text); err != nil {
			return nil, err
		}
		l.paths[text] = p
	}
	if !l.isDecoded {
		l.isDecoded = true
		l.decoded, l.decodedErr = decodeJSON(l.answer.Body)
	}
	return p.valueIn(l.decoded), l.decodedErr
}

func decodeJSON(body []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err == nil {
		if _, more := decoder.Token(); errors.Is(more, io.EOF) {
			return value, nil
		}
		err = errors.New("more text follows the JSON value")
	}
	if len(body) == 0 {
		return nil, errors.New("the body is empty, want JSON")
	}
	return nil, fmt.Errorf("the body is not JSON: %w: %s", err, shortLine(string(body)))
}

// header returns the first value of a header field. gRPC writes the names in small letters.
func (l *Evaluator) header(name string) string {
	if values := l.answer.Header[strings.ToLower(name)]; len(values) > 0 {
		return values[0]
	}
	return l.answer.Header.Get(name)
}

// newUnmetError returns an [*UnmetError]. err says why the expression has no value, or is nil.
func (l *Evaluator) newUnmetError(e *expression, err error) error {
	unmet := &UnmetError{Condition: e.text, Found: l.describeFound(e)}
	if err != nil {
		unmet.Found += fmt.Sprintf(" (%v)", err)
	}
	return unmet
}

func (l *Evaluator) describeFound(e *expression) string {
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
			add("body %s", shortLine(string(l.answer.Body)))
		}
	}
	for _, text := range e.paths {
		value, err := l.json(text)
		if err != nil {
			add("%v", err)
			break // describes all json paths at once
		}
		add("json(%s) %s", text, formatValue(value))
	}
	for _, name := range e.fields {
		add("header(%q) %q", name, shortLine(l.header(name)))
	}
	return strings.Join(found, ", ")
}

func formatValue(value any) string {
	if value == nil {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return shortLine(fmt.Sprint(value))
	}
	return shortLine(string(text))
}

func shortLine(text string) string {
	return excerpt.Start(strings.Join(strings.Fields(text), " "), 80)
}
