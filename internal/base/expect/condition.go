package expect

import (
	"fmt"

	"github.com/expr-lang/expr"
)

// Condition is what a right answer must meet. It may be shared.
type Condition struct{ *expression }

// Parse compiles a condition about answers of a kind. Its error is a [*Mistake] where it has
// a place.
func Parse(text string, kind Kind) (*Condition, error) {
	e, err := compile(text, kind, expr.AsBool())
	if err != nil {
		return nil, err
	}
	return &Condition{e}, nil
}

// String is the condition as its user wrote it.
func (e *expression) String() string { return e.text }

// Uses says what of an answer it looks at.
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

// Unmet is an answer that does not meet a condition.
type Unmet struct {
	Condition string
	Found     string
}

// Error implements error. It leaves out the condition, which whoever asked knows.
func (u *Unmet) Error() string { return "found " + u.Found }

// Value is something in an answer. It may be shared.
type Value struct{ *expression }

// ParseValue compiles an expression that takes something out of answers of a kind.
func ParseValue(text string, kind Kind) (*Value, error) {
	e, err := compile(text, kind, expr.AsAny())
	if err != nil {
		return nil, err
	}
	return &Value{e}, nil
}

// Of is the value in the answer that was looked at. Nothing is no value.
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
