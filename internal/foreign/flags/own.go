package flags

import (
	"slices"
	"strings"
)

// Own holds the flags of wirelab load itself. A value that only another tool takes does not fit
// here: that is how the other tool is found.
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
	options := []Option{}
	for name := range strings.FieldsSeq(names) {
		rule := To(name)
		if value.takes == nothing {
			rule = On(name)
		}
		options = append(options, Option{name, value, rule})
	}
	return options
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
