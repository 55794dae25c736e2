package expect

import (
	"fmt"

	"github.com/expr-lang/expr"
)

// A Condition is a condition that a right answer meets. It may be shared.
type Condition struct{ *expression }

// Parse compiles a condition about answers of a kind. Its error is a [*Mistake] if it has a place.
func Parse(text string, kind Kind) (*Condition, error) {
	e, err := compile(text, kind, expr.AsBool())
	if err != nil {
		return nil, err
	}
	return &Condition{e}, nil
}

// String returns the expression as its user wrote it.
func (e *expression) String() string { return e.text }

// Uses returns the parts of an answer that the expression looks at.
func (e *expression) Uses() Uses { return e.uses }

// Check returns nil, or an [*Unmet].
func (c *Condition) Check(l *Look) error {
	result, err := l.run(c.expression)
	if err == nil && result == true {
		return nil
	}
	unmet := &Unmet{Condition: c.text, Found: l.found(c.expression)}
	if err != nil {
		unmet.Found += fmt.Sprintf(" (%v)", err)
	}
	return unmet
}

// An Unmet is the error of an answer that does not meet a condition.
type Unmet struct {
	Condition string
	Found     string
}

// Error implements error. It leaves out the condition, which the caller knows.
func (u *Unmet) Error() string { return "found " + u.Found }

// A Value is an expression that takes something out of an answer. It may be shared.
type Value struct{ *expression }

// ParseValue compiles an expression that takes something out of answers of a kind.
func ParseValue(text string, kind Kind) (*Value, error) {
	e, err := compile(text, kind, expr.AsAny())
	if err != nil {
		return nil, err
	}
	return &Value{e}, nil
}

// Of returns the value in the answer. nil is no value.
func (v *Value) Of(l *Look) (any, error) {
	result, err := l.run(v.expression)
	if err == nil && result != nil && result != "" {
		return result, nil
	}
	unmet := &Unmet{Condition: v.text, Found: l.found(v.expression)}
	if err != nil {
		unmet.Found += fmt.Sprintf(" (%v)", err)
	}
	return nil, unmet
}
