package flags

import (
	"encoding/json"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
)

// An Option is a flag of a tool with its translation.
type Option struct {
	Names   string // as in "-c --concurrency": a single letter has one dash, a name two
	Value   Shape
	Becomes Rule
}

// Flag returns a row of a tool's table.
func Flag(names string, value Shape, becomes Rule) Option { return Option{names, value, becomes} }

// A Rule translates a flag.
type Rule struct {
	Page  string // text for docs/load-from.md
	Apply func(c *Command, value string) error
}

// To returns the rule that sets wirelab's flag to the same value.
func To(flag string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		c.Set(flag, value)
		return nil
	}}
}

// On returns the rule that sets wirelab's flag, with the value that the tool's flag implies.
func On(flag string, value ...string) Rule {
	return Rule{Code(strings.Join(append([]string{flag}, value...), " ")), func(c *Command, _ string) error {
		c.Set(flag, value...)
		return nil
	}}
}

// InSeconds returns the rule that sets wirelab's flag to a duration, in seconds or with a unit.
func InSeconds(flag string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		if IsNumber(value) {
			value += "s"
		}
		c.Set(flag, value)
		return nil
	}}
}

// AsHeader returns the rule that sends the value in a header line that begins with start.
func AsHeader(start string) Rule {
	return Rule{Code("-H '" + start + "…'"), func(c *Command, value string) error {
		c.Set("-H", start+value)
		return nil
	}}
}

// Changed returns the rule that sets wirelab's flag to the changed value.
func Changed(flag string, change func(string) string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		c.Set(flag, change(value))
		return nil
	}}
}

// OneOf returns the rule that applies the rule for the value, or else otherwise.
func OneOf(page string, rules map[string]Rule, otherwise Rule) Rule {
	return Rule{page, func(c *Command, value string) error {
		if rule, has := rules[value]; has {
			return rule.Apply(c, value)
		}
		return otherwise.Apply(c, value)
	}}
}

// Either returns a rule that applies rule to values for which is is true, and otherwise to others.
func Either(is func(string) bool, rule, otherwise Rule) Rule {
	return Rule{rule.Page, func(c *Command, value string) error {
		if is(value) {
			return rule.Apply(c, value)
		}
		return otherwise.Apply(c, value)
	}}
}

// UnlessZero returns the rule that sets wirelab's flag, unless the value is zero.
func UnlessZero(flag string) Rule { return Either(IsAboveZero, To(flag), Nothing) }

// IsAboveZero reports whether a number or a duration is above zero.
func IsAboveZero(value string) bool { return ParseClock(value) > 0 }

// Nothing is the rule for values that are wirelab's default.
var Nothing = Function("", func(*Command, string) error { return nil })

// Named returns the rule with another text for docs/load-from.md.
func (r Rule) Named(page string) Rule { return Rule{page, r.Apply} }

// Ignored returns the rule for a flag that changes no figure, or describes wirelab's default.
func Ignored(why string) Rule {
	return Rule{"left out: " + why, func(c *Command, _ string) error {
		c.Note("%s is left out: %s", c.Written, why)
		return nil
	}}
}

// Refused returns the rule for an unsupported flag. instead names the alternative.
func Refused(instead string) Rule {
	return Rule{"refused: " + instead, func(c *Command, _ string) error {
		return c.Refuse(instead)
	}}
}

// Kept returns the rule that stores the value for the tool's Settle.
func Kept(key, page string) Rule {
	return Rule{page, func(c *Command, value string) error {
		c.Keep(key, value)
		return nil
	}}
}

// Function returns the rule that applies a function.
func Function(page string, apply func(c *Command, value string) error) Rule {
	return Rule{page, apply}
}

// Code formats a text as code in Markdown.
func Code(text string) string { return "`" + text + "`" }

// A Tool holds the flags of a program, and their translation for wirelab load.
type Tool struct {
	Name    string
	Options []Option

	// OneDash means that -name equals --name, as in Go's package flag. Letters means that letters
	// can be combined, as in -sS. A tool with both prefers a known name to letters.
	OneDash, Letters bool

	// Single means that a command makes one call, not a load.
	Single bool
	// Yield lists flags with wirelab's meaning in a typed line, if the value fits both tools.
	Yield string
	// Fits reports whether the tool accepts these operands and flags. It may be nil.
	Fits func(c *Command) bool
	// Usual adds the tool's defaults to a pasted command. It may be nil.
	Usual func(c *Command)
	// Settle translates flags that need the whole line. It may be nil.
	Settle func(c *Command) error

	// IsFile reports whether a JSON object is a file of the tool. ReadFile returns an equivalent
	// command's words. Both are nil for tools without such a file.
	IsFile   func(object map[string]json.RawMessage) bool
	ReadFile func(text string) (words []string, err error)
	// OnlyFiles means that wirelab does not read the tool's commands.
	OnlyFiles bool
}

// prefersOwn reports whether wirelab's flag of this name has priority in a typed line.
func (t *Tool) prefersOwn(name string) bool { return slices.Contains(strings.Fields(t.Yield), name) }

func (t *Tool) option(name string) *Option { return Find(t.Options, name) }

// Find returns the row of a flag, or nil.
func Find(options []Option, name string) *Option {
	for i := range options {
		for known := range strings.FieldsSeq(options[i].Names) {
			if known == name {
				return &options[i]
			}
		}
	}
	return nil
}

// Own holds the flags of wirelab load. A value that only another tool accepts does not fit, and so
// leads to that tool.
var Own = &Tool{
	Name:    "wirelab load",
	Letters: true,
	Options: slices.Concat([]Option{
		{"-c --concurrency", Text, To("-c")},
		{"-n --requests", NoneOf("a number", isThousands), To("-n")},
		{"-z --duration", Text, To("-z")},
		{"-H --header", Text, To("-H")},
		{"-m --method", Method, To("-m")},
		{"-d", NoneOf("data", durationPattern.MatchString, isAtSign), ownData},
		{"--data", NoneOf("data", isAtSign), ownData},
		{"-D", NoneOf("a file", IsClock), To("-D")},
		{"--data-file", Text, To("-D")},
		{"-T --content-type", MediaType, To("-T")},
		{"-k", None, On("-k")},
		{"--insecure", None, Function("", func(c *Command, _ string) error {
			c.Set("-k")
			c.Keep("insecure", "")
			return nil
		})},
		{"-o", NoneOf("a directory", IsFormat), To("-o")},
		{"--output", Text, To("-o")},
		{"--call", NoneOf("pkg.Service/Method", isDotted), To("--call")},
		{"--http", Text, To("--http")},
	}, unchangedFlags(Text, "--rps --arrivals --ramp-to --burst --goal --steps --conn --inflight --timeout --warm-up --repeat --seed"),
		unchangedFlags(Text, "--host --user --bearer --rows --cacert --cert --key --proto --import-path --protoset"),
		unchangedFlags(Text, "--messages --pace --expect --fail-if --baseline --junit --markdown --metrics --traceparent --from --link --unix-socket"),
		unchangedFlags(None, "-h --help --random --plaintext --json --yes-i-may"),
	),
	Fits: func(c *Command) bool {
		// In ghz --insecure means cleartext. curl joins data, and its --json takes a body.
		cleartext := len(c.Kept("insecure")) > 0 && c.isBareGRPC()
		return !cleartext && len(c.Operands) <= 1 && len(c.Kept("-d")) <= 1
	},
}

var ownData = Function(Code("-d"), func(c *Command, value string) error {
	c.Keep("-d", value)
	c.Set("-d", value)
	return nil
})

// isAtSign reports whether a value is @, which means standard input in grpcurl and ghz.
func isAtSign(value string) bool { return value == "@" }

// unchangedFlags returns rules that keep flags unchanged.
func unchangedFlags(value Shape, names string) []Option {
	return lists.Map(strings.Fields(names), func(name string) Option {
		if value.takes == noValue {
			return Option{name, value, On(name)}
		}
		return Option{name, value, To(name)}
	})
}

// isBareGRPC reports whether the line calls gRPC at an address without a scheme.
func (c *Command) isBareGRPC() bool {
	return (c.Has("--call") || c.Has("--proto") || c.Has("--protoset")) &&
		len(c.Operands) > 0 && !strings.Contains(c.Operands[0], "://")
}

// IsGRPC reports whether the line calls gRPC, whatever the scheme.
func (c *Command) IsGRPC() bool {
	return c.isBareGRPC() || len(c.Operands) > 0 && strings.HasPrefix(c.Operands[0], "grpc")
}

// isThousands reports whether a value is a number in oha's short form, such as 10k.
func isThousands(value string) bool { return countPattern.MatchString(value) && !IsWhole(value) }

// isDotted reports whether a value is a method in ghz's form pkg.Service.Method.
func isDotted(value string) bool {
	return strings.Contains(value, ".") && !strings.Contains(value, "/")
}

// IsFormat reports whether a value is an output format, as for -o in other tools.
func IsFormat(value string) bool {
	return slices.Contains([]string{"csv", "json", "j", "plain-text", "pt", "-", "/dev/null", "nul"}, value) ||
		strings.HasPrefix(value, "path:")
}
