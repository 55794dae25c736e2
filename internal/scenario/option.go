package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Option is one key that may be set behind the name of a stack or a workload.
// It is declared once; help texts, checks and typed reading follow from it.
type Option struct {
	Key     string   `json:"key"`
	Values  []string `json:"-"`                 // the values it takes; empty where Parse decides
	Default string   `json:"default,omitempty"` // empty: an option that is not set has no value
	Help    string   `json:"-"`                 // one line, for `wirelab list`
	// Parse turns a value into what Value returns, or says which values are
	// wanted. Nil: the value is its text.
	Parse func(text string) (any, error) `json:"-"`
	// Role is what the option decides, as far as a report must know.
	Role Role `json:"role,omitempty"`
	// Contrast asks the report to tell what the option changes. Nil: it does not.
	Contrast *Contrast `json:"contrast,omitempty"`
}

// Role is what an option decides.
type Role string

// The roles that a report knows.
const (
	NoRole            Role = ""
	ConnectionsRole   Role = "connections"    // of a stack: how many connections there are
	OperationRole     Role = "operation"      // of a workload: what a call does
	SimulatedWorkRole Role = "simulated-work" // of a workload: how long handlers sleep in place of work
)

// Contrast says how a report tells what an option changes: wherever two variants
// differ in it alone, their figures are held against each other.
type Contrast struct {
	// Name is what the report calls the option, as in "key exchange".
	Name string `json:"name"`
	// Unset is what the report calls the value of a variant that does not set
	// the option. Empty: the default.
	Unset string `json:"unset,omitempty"`
	// Metrics are those that the advice tells of: cpu, handshake, first-byte,
	// throughput, p99, server-peak. Empty: cpu, handshake and throughput.
	Metrics []string `json:"metrics,omitempty"`
}

func (o Option) parse(text string) (any, error) {
	if len(o.Values) > 0 && !slices.Contains(o.Values, text) {
		return nil, fmt.Errorf("%s=%s: %s", o.Key, text, Suggest(text, o.Values))
	}
	if o.Parse == nil {
		return text, nil
	}
	value, err := o.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", o.Key, text, err)
	}
	return value, nil
}

// Parser is parse as an Option takes it.
func Parser[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return parse(text) }
}

// IntBetween parses whole numbers within bounds, as int.
func IntBetween(least, most int) func(string) (any, error) {
	return func(text string) (any, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// Count parses whole numbers from 1, as int.
func Count(text string) (any, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return nil, errors.New("want a whole number from 1")
	}
	return n, nil
}

// Time parses times from 0, as time.Duration.
func Time(text string) (any, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, errors.New("want a time, as in 5ms")
	}
	return d, nil
}

// PositiveTime parses times above 0, as time.Duration.
func PositiveTime(text string) (any, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return nil, errors.New("want a time above zero, as in 5ms")
}

// BytesUpTo parses sizes from 1 byte, as int.
func BytesUpTo(most int) func(string) (any, error) {
	return func(text string) (any, error) {
		size, err := ParseSize(text)
		if err != nil {
			return nil, err
		}
		if size < 1 || int(size) > most {
			return nil, fmt.Errorf("want 1 B to %v", Size(most))
		}
		return int(size), nil
	}
}

// Options are the values of declared options. Reading them never fails; what was
// wrong with them is kept for Err.
type Options struct {
	what   string // "variant" or "workload"
	of     Variant
	values map[string]any
	err    error
}

// ReadOptions reads what v sets. What it does not set has its default.
func ReadOptions(what string, v Variant, declared []Option) *Options {
	o := &Options{what: what, of: v, values: make(map[string]any, len(declared))}
	keys := make([]string, 0, len(declared))
	for _, option := range declared {
		keys = append(keys, option.Key)
	}
	for _, set := range v.Options {
		switch {
		case len(keys) == 0:
			o.Fail(fmt.Errorf("%s has no options", v.Stack))
		case !slices.Contains(keys, set.Key):
			o.Fail(fmt.Errorf("%s has no option %q; %s", v.Stack, set.Key, Suggest(set.Key, keys)))
		}
	}
	for _, option := range declared {
		text, set := v.Get(option.Key)
		if !set {
			text = option.Default
		}
		o.values[option.Key] = nil
		if text != "" {
			value, err := option.parse(text)
			o.values[option.Key] = value
			o.Fail(err)
		}
	}
	return o
}

// Fail notes that the options are wrong. The first error is kept; nil is none.
func (o *Options) Fail(err error) {
	if o.err == nil && err != nil {
		o.err = fmt.Errorf("%s %s: %w", o.what, o.of, err)
	}
}

// Err is the first thing that was wrong.
func (o *Options) Err() error { return o.err }

// Has reports whether the key is set.
func (o *Options) Has(key string) bool {
	_, set := o.of.Get(key)
	return set
}

// Value is what the key's Parse returned, or its zero value where the key has no
// value or a wrong one. A key that is not declared, or has another type, is a
// mistake in the program.
func Value[T any](o *Options, key string) T {
	value, declared := o.values[key]
	if !declared {
		panic(fmt.Sprintf("scenario: option %s of %s is read and not declared", key, o.of.Stack))
	}
	if value == nil {
		var none T
		return none
	}
	return value.(T)
}

// Text is the value of an option without Parse.
func (o *Options) Text(key string) string { return Value[string](o, key) }

// On reports whether an option of the values off and on is on.
func (o *Options) On(key string) bool { return o.Text(key) == "on" }

// Declarations are what stacks and workloads say of themselves for the report.
// A run's manifest keeps them: who reads records must know no stack and no
// workload.
type Declarations struct {
	// Stacks are all that there are, in the order of their list.
	Stacks    []Declaration `json:"stacks"`
	Workloads []Declaration `json:"workloads"`
	// Protocols names what each variant of the run speaks, as in "HTTP/2".
	Protocols map[string]string `json:"protocols"`
}

// Declaration is of a stack or a workload.
type Declaration struct {
	Name string `json:"name"`
	// Sweep says that a workload's calls ask for nothing.
	Sweep bool `json:"sweep,omitempty"`
	// Options are those that a report needs.
	Options []Option `json:"options,omitempty"`
}

// Declare keeps the options of which the declaration says something.
func Declare(name string, options []Option) Declaration {
	d := Declaration{Name: name}
	for _, o := range options {
		if o.Role != NoRole || o.Contrast != nil {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Option is the zero value where the declaration says nothing of it.
func (d Declaration) Option(key string) Option {
	for _, o := range d.Options {
		if o.Key == key {
			return o
		}
	}
	return Option{}
}

// Has reports whether an option has the role.
func (d Declaration) Has(role Role) bool {
	return slices.ContainsFunc(d.Options, func(o Option) bool { return o.Role == role })
}

// Stack is the declaration of that name. One that is not there has only a name.
func (d *Declarations) Stack(name string) Declaration { return find(d.Stacks, name) }

// Workload is the declaration of a cell's workload.
func (d *Declarations) Workload(text string) Declaration {
	w, err := ParseWorkload(text)
	if err != nil {
		return Declaration{Name: text}
	}
	return find(d.Workloads, w.Stack)
}

func find(among []Declaration, name string) Declaration {
	for _, d := range among {
		if d.Name == name {
			return d
		}
	}
	return Declaration{Name: name}
}

// Operation is what the calls of a cell's workload do, as far as its options
// choose that; else the workload's name.
func (d *Declarations) Operation(text string) string {
	declared := d.Workload(text)
	operation := declared.Name
	set, _ := ParseWorkload(text)
	for _, o := range declared.Options {
		if o.Role != OperationRole {
			continue
		}
		if value, has := set.Get(o.Key); has {
			return value
		}
		if o.Default != "" {
			operation = o.Default
		}
	}
	return operation
}
