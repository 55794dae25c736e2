package flags

import (
	"encoding/json"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
)

// An Option is a flag of a tool and its translation.
type Option struct {
	Names   string // such as "-c --concurrency": letters have one dash, names have two
	Value   Shape
	Becomes Rule
}

// Flag returns a row of a tool's table of flags.
func Flag(names string, value Shape, becomes Rule) Option { return Option{names, value, becomes} }

// A Rule translates a flag of a tool.
type Rule struct {
	Page  string // text for docs/load-from.md
	Apply func(c *Command, value string) error
}

// To returns a rule that sets a flag of wirelab to the same value.
func To(flag string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		c.Set(flag, value)
		return nil
	}}
}

// On returns a rule that sets a flag of wirelab to a fixed value.
func On(flag string, value ...string) Rule {
	return Rule{Code(strings.Join(append([]string{flag}, value...), " ")), func(c *Command, _ string) error {
		c.Set(flag, value...)
		return nil
	}}
}

// InSeconds returns a rule that sets a flag of wirelab to a duration. The tool's value is a number
// of seconds, or a duration with a unit.
func InSeconds(flag string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		if IsNumber(value) {
			value += "s"
		}
		c.Set(flag, value)
		return nil
	}}
}

// AsHeader returns a rule that sends the value as a header line, after the text in start.
func AsHeader(start string) Rule {
	return Rule{Code("-H '" + start + "…'"), func(c *Command, value string) error {
		c.Set("-H", start+value)
		return nil
	}}
}

// Changed returns a rule that sets a flag of wirelab to change(value).
func Changed(flag string, change func(string) string) Rule {
	return Rule{Code(flag), func(c *Command, value string) error {
		c.Set(flag, change(value))
		return nil
	}}
}

// OneOf returns a rule that applies rules[value], or otherwise if the map lacks the value.
func OneOf(page string, rules map[string]Rule, otherwise Rule) Rule {
	return Rule{page, func(c *Command, value string) error {
		if rule, has := rules[value]; has {
			return rule.Apply(c, value)
		}
		return otherwise.Apply(c, value)
	}}
}

// Either returns a rule that calls rule if is(value) is true, else the rule named otherwise.
func Either(is func(string) bool, rule, otherwise Rule) Rule {
	return Rule{rule.Page, func(c *Command, value string) error {
		if is(value) {
			return rule.Apply(c, value)
		}
		return otherwise.Apply(c, value)
	}}
}

// UnlessZero returns a rule that sets a flag of wirelab unless the value is zero.
func UnlessZero(flag string) Rule { return Either(IsAboveZero, To(flag), Nothing) }

// IsAboveZero reports whether a number or a duration is above zero.
func IsAboveZero(value string) bool { return ParseClock(value) > 0 }

// Nothing is the rule for values that equal wirelab's default.
var Nothing = Function("", func(*Command, string) error { return nil })

// Named returns the rule with a different text for docs/load-from.md.
func (r Rule) Named(page string) Rule { return Rule{page, r.Apply} }

// Ignored returns a rule for a flag that has no effect on figures, or is wirelab's default.
func Ignored(why string) Rule {
	return Rule{"left out: " + why, func(c *Command, _ string) error {
		c.Note("%s is left out: %s", c.Written, why)
		return nil
	}}
}

// Refused returns a rule for an unsupported flag. instead names an alternative.
func Refused(instead string) Rule {
	return Rule{"refused: " + instead, func(c *Command, _ string) error {
		return c.Refuse(instead)
	}}
}

// Kept returns a rule that stores the value for the tool's Settle.
func Kept(key, page string) Rule {
	return Rule{page, func(c *Command, value string) error {
		c.Keep(key, value)
		return nil
	}}
}

// Function returns a rule that calls apply.
func Function(page string, apply func(c *Command, value string) error) Rule {
	return Rule{page, apply}
}

// Code formats a text as Markdown code.
func Code(text string) string { return "`" + text + "`" }

// A Tool describes a program's flags and their translation for wirelab load.
type Tool struct {
	Name    string
	Options []Option

	// OneDash means that -name equals --name, as in Go's package flag. Letters means that letters
	// can be combined, as in -sS. If OneDash and Letters are set, a known name has priority over
	// letters.
	OneDash, Letters bool

	// Single means that a command makes a single call instead of a load.
	Single bool
	// Whole means that the flags are read only in a whole command, since other tools have the same.
	Whole bool
	// Yield lists flags that have wirelab's meaning in a typed line if the value is valid for
	// wirelab and for the tool.
	Yield string
	// Fits reports whether the tool accepts these operands and flags. It may be nil.
	Fits func(c *Command) bool
	// Usual adds the tool's default values to a pasted command. It may be nil.
	Usual func(c *Command)
	// ReadInput translates what a pipeline gives to the command. It is nil for tools that read no input.
	ReadInput func(c *Command, input Input) error
	// Settle translates flags whose meaning depends on other flags. It may be nil.
	Settle func(c *Command) error

	// IsFile reports whether a JSON object comes from a file of the tool. ReadFile returns the
	// arguments of an equivalent command. IsFile and ReadFile are nil for tools without files.
	IsFile   func(object map[string]json.RawMessage) bool
	ReadFile func(text string) (words []string, err error)
	// OnlyFiles means that wirelab reads the tool's files but not its commands.
	OnlyFiles bool
}

// prefersOwn reports whether wirelab's meaning of this flag has priority in a typed line.
func (t *Tool) prefersOwn(name string) bool { return slices.Contains(strings.Fields(t.Yield), name) }

func (t *Tool) option(name string) *Option { return Find(t.Options, name) }

// Find returns the row of the flag with this name, or nil.
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

// Own holds the flags of wirelab load. Values that only another tool accepts are invalid here, so
// that the line is read as a line of that tool.
var Own = &Tool{
	Name:    "wirelab load",
	Letters: true,
	Options: slices.Concat([]Option{
		{"-c --concurrency", Text, To("-c")},
		{"-n --requests", NoneOf("a number", isThousands), To("-n")},
		{"-z --duration", Text, To("-z")},
		{"-H --header", Text, To("-H")},
		{"-m --method", Method, To("-m")},
		{"-d", NoneOf("data", durationPattern, isAtSign), ownData},
		{"--data", NoneOf("data", isAtSign), ownData},
		{"-D", NoneOf("a file", IsClock), To("-D")},
		{"--data-file", Text, To("-D")},
		{"-F --form", Text, To("-F")},
		{"-T --content-type", MediaType, To("-T")},
		{"-k", None, On("-k")},
		{"--insecure", None, Function("", func(c *Command, _ string) error {
			c.Set("-k")
			c.Keep("insecure", "")
			return nil
		})},
		{"-o", NoneOf("a directory", IsFormat), To("-o")},
		{"--output", Text, To("-o")},
		{"--resolve", NoneOf("HOST:PORT:ADDRESS", IsIP), To("--resolve")},
		{"--connect-to", Value("HOST1:PORT1:HOST2:PORT2", func(v string) bool { return strings.Count(v, ":") > 1 }), To("--connect-to")},
		{"--call", NoneOf("pkg.Service/Method", isDotted), To("--call")},
		{"--http", Text, To("--http")},
		{"-e", OneOfWords("gzip", "gzip"), To("-e")},
		{"--encoding", Text, To("--encoding")},
	}, unchangedFlags(Text, "--rps --arrivals --ramp-to --stages --burst --goal --steps --conn --inflight --timeout --retry --wait --warm-up --repeat --seed"),
		unchangedFlags(Text, "--host --sni --user --bearer --rows --targets --cacert --cert --key --proto --import-path --protoset"),
		unchangedFlags(Text, "--messages --pace --expect --fail-if --baseline --junit --markdown --metrics --push --push-header --traceparent --from --link --unix-socket"),
		unchangedFlags(Text, "--addresses --against --dns --lookup-every --also --budget --client --columns --exchange --expect-sample --fleet --fleet-token --inflight-per-stream"),
		unchangedFlags(Text, "--match --message-rate --open-rate --probe --sent-at --sequence --series --server --target --undecided"),
		unchangedFlags(None, "-h --help -v --verbose --random --plaintext --binary --json --yes-i-may --dry-run --no-save --samples --sse --streams"),
		[]Option{{"--live", Maybe, Function("", func(c *Command, value string) error {
			c.Set(strings.TrimSuffix("--live="+value, "="))
			return nil
		})}},
	),
	Fits: func(c *Command) bool {
		// In ghz --insecure means cleartext. curl joins several -d, and its --json has a body as
		// its value.
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

func unchangedFlags(value Shape, names string) []Option {
	return lists.Map(strings.Fields(names), func(name string) Option {
		if value.takes == noValue {
			return Option{name, value, On(name)}
		}
		return Option{name, value, To(name)}
	})
}

// isBareGRPC reports whether the line is a gRPC call to an address without a scheme.
func (c *Command) isBareGRPC() bool {
	return (c.Has("--call") || c.Has("--proto") || c.Has("--protoset")) &&
		len(c.Operands) > 0 && !strings.Contains(c.Operands[0], "://")
}

// IsGRPC reports whether the line is a gRPC call, with or without a scheme.
func (c *Command) IsGRPC() bool {
	return c.isBareGRPC() || len(c.Operands) > 0 && strings.HasPrefix(c.Operands[0], "grpc")
}

// isThousands reports whether a value is a number in oha's short form, such as 10k.
func isThousands(value string) bool { return countPattern(value) && !IsWhole(value) }

// isDotted reports whether a value is a method in ghz's form, pkg.Service.Method.
func isDotted(value string) bool {
	return strings.Contains(value, ".") && !strings.Contains(value, "/")
}

// IsFormat reports whether a value is the name of an output format, as after -o in other tools.
func IsFormat(value string) bool {
	return slices.Contains([]string{"csv", "json", "j", "plain-text", "pt", "-", "/dev/null", "nul"}, value) ||
		strings.HasPrefix(value, "path:")
}
