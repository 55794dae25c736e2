package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
)

// An Option is a key that may be set after the name of a stack or a workload.
// It is declared once; help texts, checks and typed reading follow from it.
type Option struct {
	Key     string   `json:"key"`
	Values  []string `json:"-"`                 // the values it takes; empty if Parse decides
	Default string   `json:"default,omitempty"` // empty: an option that is not set has no value
	Help    string   `json:"-"`                 // one line, for `wirelab list`
	// Parse converts a value to the result of Value, or says which values are wanted.
	// Nil: the value is its text.
	Parse func(text string) (any, error) `json:"-"`
	// Role says what the option decides, for the report.
	Role Role `json:"role,omitempty"`
	// Contrast asks the report to show what the option changes. Nil: it does not.
	Contrast *Contrast `json:"contrast,omitempty"`
}

// A Role says what an option decides.
type Role string

// The roles that a report knows.
const (
	NoRole            Role = ""
	ConnectionsRole   Role = "connections"    // of a stack: how many connections there are
	OperationRole     Role = "operation"      // of a workload: what a call does
	CallerRole        Role = "caller"         // of a stack: who calls, if it is not its own client
	SimulatedWorkRole Role = "simulated-work" // of a workload: how long handlers sleep in place of work
)

// Contrast says how a report shows what an option changes, by comparing variants
// that differ in it alone.
type Contrast struct {
	// Name is the option's name in the report, as in "key exchange".
	Name string `json:"name"`
	// Unset is the report's name for the value of a variant that does not set
	// the option. Empty: the default.
	Unset string `json:"unset,omitempty"`
	// Metrics lists the metrics that the advice compares: cpu, handshake, first-byte,
	// throughput, p99, server-peak. Empty: cpu, handshake and throughput.
	Metrics []string `json:"metrics,omitempty"`
}

func (o Option) parse(text string) (any, error) {
	if len(o.Values) > 0 && !slices.Contains(o.Values, text) {
		return nil, fmt.Errorf("%s=%s: %s", o.Key, text, spelling.Suggest(text, o.Values))
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

// Parser converts parse to the type of Option.Parse.
func Parser[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return parse(text) }
}

// parserWithCheck makes a parser that accepts the values that ok accepts, and otherwise says which
// values are wanted.
func parserWithCheck[T any](parse func(string) (T, error), ok func(T) bool, want string) func(string) (any, error) {
	return func(text string) (any, error) {
		if value, err := parse(text); err == nil && ok(value) {
			return value, nil
		}
		return nil, errors.New("want " + want)
	}
}

// Count parses whole numbers from 1, as int; Time parses times from 0, and
// PositiveTime times above 0, as time.Duration.
var (
	Count        = parserWithCheck(strconv.Atoi, func(n int) bool { return n >= 1 }, "a whole number from 1")
	Time         = parserWithCheck(time.ParseDuration, func(d time.Duration) bool { return d >= 0 }, "a time, as in 5ms")
	PositiveTime = parserWithCheck(time.ParseDuration, func(d time.Duration) bool { return d > 0 }, "a time above zero, as in 5ms")
)

// IntBetween parses whole numbers within bounds, as int.
func IntBetween(least, most int) func(string) (any, error) {
	return parserWithCheck(strconv.Atoi, func(n int) bool { return n >= least && n <= most }, fmt.Sprintf("a whole number from %d to %d", least, most))
}

// BytesUpTo parses sizes from 1 byte, as int.
func BytesUpTo(most int) func(string) (any, error) {
	return func(text string) (any, error) {
		size, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		if size < 1 || int(size) > most {
			return nil, fmt.Errorf("want 1 B to %v", Size(most))
		}
		return int(size), nil
	}
}

// Options holds the values of declared options. Reading them never fails; Err returns
// the first error.
type Options struct {
	what   string // "variant" or "workload"
	of     Variant
	values map[string]any
	err    error
}

// ReadOptions reads the options of v. An option that v does not set has its default.
func ReadOptions(what string, v Variant, declared []Option) *Options {
	o := &Options{what: what, of: v, values: make(map[string]any, len(declared))}
	keys := lists.Map(declared, func(o Option) string { return o.Key })
	for _, set := range v.Options {
		switch {
		case len(keys) == 0:
			o.Fail(fmt.Errorf("%s has no options", v.Stack))
		case !slices.Contains(keys, set.Key):
			o.Fail(fmt.Errorf("%s has no option %q; %s", v.Stack, set.Key, spelling.Suggest(set.Key, keys)))
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

// Fail records an error of the options. It keeps the first error, and ignores nil.
func (o *Options) Fail(err error) {
	if o.err == nil && err != nil {
		o.err = fmt.Errorf("%s %s: %w", o.what, o.of, err)
	}
}

// Err returns the first error.
func (o *Options) Err() error { return o.err }

// Has reports whether the key is set.
func (o *Options) Has(key string) bool {
	_, set := o.of.Get(key)
	return set
}

// Value returns the result of the key's Parse, or the zero value if the key has no
// value or a wrong one. It panics if the key is not declared or has another type.
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

// Text returns the value of an option without Parse.
func (o *Options) Text(key string) string { return Value[string](o, key) }

// On reports whether an option of the values off and on is on.
func (o *Options) On(key string) bool { return o.Text(key) == "on" }

// Declarations holds the declarations of stacks and workloads for the report.
// A run's manifest keeps them, so that a reader of records need not know any stack
// or workload.
type Declarations struct {
	// Stacks lists all stacks of the program, in the order of their list.
	Stacks    []Declaration `json:"stacks"`
	Workloads []Declaration `json:"workloads"`
	// Protocols names what each variant of the run speaks, as in "HTTP/2".
	Protocols map[string]string `json:"protocols"`
}

// A Declaration describes a stack or a workload.
type Declaration struct {
	Name string `json:"name"`
	// Sweep says that a workload's calls ask for nothing.
	Sweep bool `json:"sweep,omitempty"`
	// Options lists the options that a report needs.
	Options []Option `json:"options,omitempty"`
}

// Declare makes a declaration of the options that a report needs.
func Declare(name string, options []Option) Declaration {
	d := Declaration{Name: name}
	for _, o := range options {
		if o.Role != NoRole || o.Contrast != nil {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Option finds an option by its key. An undeclared one is the zero value.
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

// Stack finds a declaration by its name. An unknown stack has only a name.
func (d *Declarations) Stack(name string) Declaration { return declarationOf(d.Stacks, name) }

// Workload returns the declaration of a cell's workload.
func (d *Declarations) Workload(text string) Declaration {
	w, err := ParseWorkload(text)
	if err != nil {
		return Declaration{Name: text}
	}
	return declarationOf(d.Workloads, w.Stack)
}

func declarationOf(among []Declaration, name string) Declaration {
	for _, d := range among {
		if d.Name == name {
			return d
		}
	}
	return Declaration{Name: name}
}

// Operation returns the operation of a cell's calls if the workload's options choose one, and
// otherwise the workload's name.
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
