package flags

import (
	"encoding/json"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
)

// An Option is a flag of a tool, and what it becomes.
type Option struct {
	Names   string // as in "-c --concurrency": a single letter has one dash, a name two
	Value   Shape
	Becomes Rule
}

// Flag returns a row of a tool's table.
func Flag(names string, value Shape, becomes Rule) Option { return Option{names, value, becomes} }

// A Rule says what a flag becomes.
type Rule struct {
	Page  string // what docs/load-from.md says: words, or wirelab's flag
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

// AsHeader returns the rule that sends the value in a header field that starts so.
func AsHeader(start string) Rule {
	return Rule{Code("-H '" + start + "…'"), func(c *Command, value string) error {
		c.Set("-H", start+value)
		return nil
	}}
}

// Changed returns the rule that sets wirelab's flag to what change makes of the value.
func Changed(flag string, change func(string) string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		c.Set(flag, change(value))
		return nil
	}}
}

// OneOf returns the rule that applies the rule of the value, or else otherwise.
func OneOf(page string, rules map[string]Rule, otherwise Rule) Rule {
	return Rule{page, func(c *Command, value string) error {
		if rule, has := rules[value]; has {
			return rule.Apply(c, value)
		}
		return otherwise.Apply(c, value)
	}}
}

// Either returns the rule for values that is accepts, and another rule for the others.
func Either(is func(string) bool, rule, otherwise Rule) Rule {
	return Rule{rule.Page, func(c *Command, value string) error {
		if is(value) {
			return rule.Apply(c, value)
		}
		return otherwise.Apply(c, value)
	}}
}

// UnlessZero returns the rule that sets wirelab's flag, unless the value says that there is none.
func UnlessZero(flag string) Rule { return Either(IsSome, To(flag), Nothing) }

// IsSome reports whether a number or a duration is above zero.
func IsSome(value string) bool { return ParseClock(value) > 0 }

// Nothing is the rule for values that say what wirelab does anyway.
var Nothing = By("", func(*Command, string) error { return nil })

// Named returns the rule with another text for the page.
func (r Rule) Named(page string) Rule { return Rule{page, r.Apply} }

// Ignored returns the rule for a flag that changes no figure, or that wirelab obeys unasked.
func Ignored(why string) Rule {
	return Rule{"left out: " + why, func(c *Command, _ string) error {
		c.Note("%s is left out: %s", c.Written, why)
		return nil
	}}
}

// Refused returns the rule for a flag that wirelab cannot honour; instead says what to do.
func Refused(instead string) Rule {
	return Rule{"refused: " + instead, func(c *Command, _ string) error {
		return c.Refuse(instead)
	}}
}

// Kept returns the rule that keeps the value for the tool's Settle.
func Kept(key, page string) Rule {
	return Rule{page, func(c *Command, value string) error {
		c.Keep(key, value)
		return nil
	}}
}

// By returns the rule that applies a function.
func By(page string, apply func(c *Command, value string) error) Rule {
	return Rule{page, apply}
}

// Code formats a text as code in Markdown.
func Code(text string) string { return "`" + text + "`" }

// A Tool holds the flags of a program, and their translation for wirelab load.
type Tool struct {
	Name    string
	Options []Option

	// OneDash says that -name means --name, as in Go's package flag. Letters says that letters
	// can be put together, as in -sS. A tool with both takes a known name before letters.
	OneDash, Letters bool

	// Single says that a command calls once, and makes no load.
	Single bool
	// Yield lists flags for which wirelab's own sense wins in a typed line if the value fits both.
	Yield string
	// Fits reports whether the tool takes such operands and flags. It may be nil.
	Fits func(c *Command) bool
	// Usual adds the tool's defaults to a pasted command. It may be nil.
	Usual func(c *Command)
	// Settle translates flags that need the whole line. It may be nil.
	Settle func(c *Command) error

	// IsFile reports whether an object of JSON is a file of the tool, and ReadFile returns the
	// words of a command that does the same. Both are nil for tools without such a file.
	IsFile   func(object map[string]json.RawMessage) bool
	ReadFile func(text string) (words []string, err error)
	// OnlyFiles says that wirelab does not read the tool's commands.
	OnlyFiles bool
}

// yields reports whether wirelab's own flag of that name wins in a typed line.
func (t *Tool) yields(name string) bool { return slices.Contains(strings.Fields(t.Yield), name) }

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

// Own holds the flags of wirelab load. A value that only another tool takes does not fit: that is
// how the other tool is found.
var Own = &Tool{
	Name:    "wirelab load",
	Letters: true,
	Options: slices.Concat([]Option{
		{"-c --concurrency", Text, To("-c")},
		{"-n --requests", ButNot("a number", isThousands), To("-n")},
		{"-z --duration", Text, To("-z")},
		{"-H --header", Text, To("-H")},
		{"-m --method", Method, To("-m")},
		{"-d", ButNot("data", durationPattern.MatchString, isAt), ownData},
		{"--data", ButNot("data", isAt), ownData},
		{"-D", ButNot("a file", IsClock), To("-D")},
		{"--data-file", Text, To("-D")},
		{"-T --content-type", MediaType, To("-T")},
		{"-k", None, On("-k")},
		{"--insecure", None, By("", func(c *Command, _ string) error {
			c.Set("-k")
			c.Keep("insecure", "")
			return nil
		})},
		{"-o", ButNot("a directory", IsFormat), To("-o")},
		{"--output", Text, To("-o")},
		{"--call", ButNot("pkg.Service/Method", isDotted), To("--call")},
		{"--http", Text, To("--http")},
	}, same(Text, "--rps --arrivals --ramp-to --burst --goal --steps --conn --inflight --timeout --warm-up --repeat --seed"),
		same(Text, "--host --user --bearer --rows --cacert --cert --key --proto --import-path --protoset"),
		same(Text, "--messages --pace --expect --fail-if --baseline --junit --markdown --metrics --traceparent --from --link --unix-socket"),
		same(None, "-h --help --random --plaintext --json --yes-i-may"),
	),
	Fits: func(c *Command) bool {
		// In ghz --insecure means cleartext; curl joins data, and takes JSON behind --json.
		cleartext := len(c.Kept("insecure")) > 0 && c.isBareGRPC()
		return !cleartext && len(c.Operands) <= 1 && len(c.Kept("-d")) <= 1
	},
}

var ownData = By(Code("-d"), func(c *Command, value string) error {
	c.Keep("-d", value)
	c.Set("-d", value)
	return nil
})

// isAt reports whether a value is @, which grpcurl and ghz take for the standard input.
func isAt(value string) bool { return value == "@" }

// same returns rows for flags that stay as they are.
func same(value Shape, names string) []Option {
	return lists.Map(strings.Fields(names), func(name string) Option {
		if value.takes == nothing {
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

// isThousands reports whether a value is a number as oha shortens it, such as 10k.
func isThousands(value string) bool { return countPattern.MatchString(value) && !IsWhole(value) }

// isDotted reports whether a value is a method as ghz may write it, such as pkg.Service.Method.
func isDotted(value string) bool {
	return strings.Contains(value, ".") && !strings.Contains(value, "/")
}

// IsFormat reports whether a value is an output format, which other tools' -o takes.
func IsFormat(value string) bool {
	return slices.Contains([]string{"csv", "json", "j", "plain-text", "pt", "-", "/dev/null", "nul"}, value) ||
		strings.HasPrefix(value, "path:")
}
