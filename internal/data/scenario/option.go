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

// An Option is a key that users may set after the name of a stack or a workload. One declaration
// serves help texts, checks and typed reading.
type Option struct {
	Key     string   `json:"key"`
	Values  []string `json:"-"`                 // accepted values; empty if Parse decides
	Default string   `json:"default,omitempty"` // empty means that an unset option has no value
	Help    string   `json:"-"`                 // one line of help for `wirelab list`
	// Parse converts a text to the value that function Value returns. Its error lists the accepted
	// values. nil means that the value is the text itself.
	Parse func(text string) (any, error) `json:"-"`
	// Role is the option's meaning for the report.
	Role Role `json:"role,omitempty"`
	// Contrast makes the report show what the option changes. nil means that it does not.
	Contrast *Contrast `json:"contrast,omitempty"`
}

// A Role is the meaning of an option for the report.
type Role string

// The roles that a report knows.
const (
	NoRole          Role = ""
	ConnectionsRole Role = "connections" // of a stack: number of connections
	OperationRole   Role = "operation"   // of a workload: what a call does
	// Of a stack: the caller, if it is not the stack's own client.
	CallerRole Role = "caller"
	// Of a workload: time that handlers sleep instead of working.
	SimulatedWorkRole Role = "simulated-work"
)

// Contrast says how a report shows what an option changes. The report compares variants that differ
// only in this option.
type Contrast struct {
	// Name is the option's name in the report, as in "key exchange".
	Name string `json:"name"`
	// Unset is the report's name for the value of a variant that does not set the option. Empty
	// means the default value.
	Unset string `json:"unset,omitempty"`
	// Metrics lists the metrics that the advice compares: cpu, handshake, first-byte, throughput,
	// p99, server-peak. Empty means cpu, handshake and throughput.
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

// Parser converts a parse function to the type of Option.Parse.
func Parser[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return parse(text) }
}

// parserWithCheck makes a parser that accepts only values for which ok is true. Its error lists the
// accepted values (want).
func parserWithCheck[T any](parse func(string) (T, error), ok func(T) bool, want string) func(string) (any, error) {
	return func(text string) (any, error) {
		if value, err := parse(text); err == nil && ok(value) {
			return value, nil
		}
		return nil, errors.New("want " + want)
	}
}

// Count parses integers from 1 as int. Time parses times from 0 as time.Duration. PositiveTime
// parses times above 0 as time.Duration.
var (
	Count        = parserWithCheck(strconv.Atoi, func(n int) bool { return n >= 1 }, "a whole number from 1")
	Time         = parserWithCheck(time.ParseDuration, func(d time.Duration) bool { return d >= 0 }, "a time, as in 5ms")
	PositiveTime = parserWithCheck(time.ParseDuration, func(d time.Duration) bool { return d > 0 }, "a time above zero, as in 5ms")
)

// IntBetween makes a parser of integers within bounds, as int.
func IntBetween(least, most int) func(string) (any, error) {
	return parserWithCheck(strconv.Atoi, func(n int) bool { return n >= least && n <= most }, fmt.Sprintf("a whole number from %d to %d", least, most))
}

// BytesUpTo makes a parser of sizes from 1 byte, as int.
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

// Options holds the values of declared options. Reading never fails. Err returns the first error.
type Options struct {
	what   string // "variant" or "workload", for errors
	of     Variant
	values map[string]any
	err    error
}

// ReadOptions reads the options of v. An option that v does not set gets its default.
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

// Fail stores an error of the options. It keeps only the first error, and ignores nil.
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

// Value returns the parsed value of a key. It returns the zero value if the value is missing or
// wrong. It panics if the key is not declared or has another type.
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

// Text returns the value of an option that has no Parse.
func (o *Options) Text(key string) string { return Value[string](o, key) }

// On reports whether an option with the values off and on is on.
func (o *Options) On(key string) bool { return o.Text(key) == "on" }

// Declarations describes stacks and workloads for the report. A run's manifest stores them, so that
// a reader of records need not know any stack or workload.
type Declarations struct {
	// Stacks lists all stacks of the program in display order.
	Stacks    []Declaration `json:"stacks"`
	Workloads []Declaration `json:"workloads"`
	// Protocols maps each variant of the run to its protocol, such as "HTTP/2".
	Protocols map[string]string `json:"protocols"`
}

// A Declaration describes a stack or a workload.
type Declaration struct {
	Name string `json:"name"`
	// Sweep marks a workload whose calls transfer only payload, without an operation.
	Sweep bool `json:"sweep,omitempty"`
	// Options lists only the options that a report needs.
	Options []Option `json:"options,omitempty"`
}

// Declare returns a declaration that contains only the options that a report needs.
func Declare(name string, options []Option) Declaration {
	d := Declaration{Name: name}
	for _, o := range options {
		if o.Role != NoRole || o.Contrast != nil {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Option returns the option with the key, or the zero value if it is not declared.
func (d Declaration) Option(key string) Option {
	for _, o := range d.Options {
		if o.Key == key {
			return o
		}
	}
	return Option{}
}

// Has reports whether one of the options has the role.
func (d Declaration) Has(role Role) bool {
	return slices.ContainsFunc(d.Options, func(o Option) bool { return o.Role == role })
}

// Stack returns the declaration of a stack. For an unknown stack it contains only the name.
func (d *Declarations) Stack(name string) Declaration { return declarationOf(d.Stacks, name) }

// Workload returns the declaration of a workload, given the text of a cell's workload.
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

// Operation returns the operation of a cell's calls, if an option of the workload selects it.
// Otherwise it returns the workload's name.
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
