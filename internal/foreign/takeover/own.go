package takeover

import (
	"slices"
	"strings"
)

// own are the flags of wirelab load itself. A value that only another tool would be given
// does not fit here: that is how the other tool is found.
var own = &tool{
	name:    "wirelab load",
	letters: true,
	options: slices.Concat([]option{
		{"-c --concurrency", text, to("-c")},
		{"-n --requests", butNot("a number", isThousands), to("-n")},
		{"-z --duration", text, to("-z")},
		{"-H --header", text, to("-H")},
		{"-m --method", method, to("-m")},
		{"-d", butNot("data", durationPattern.MatchString, isAt), ownData},
		{"--data", butNot("data", isAt), ownData},
		{"-D", butNot("a file", isClock), to("-D")},
		{"--data-file", text, to("-D")},
		{"-T --content-type", mediaType, to("-T")},
		{"-k", none, on("-k")},
		{"--insecure", none, by("", func(c *command, _ string) error {
			c.set("-k")
			c.keep("insecure", "")
			return nil
		})},
		{"-o", butNot("a directory", isFormat), to("-o")},
		{"--output", text, to("-o")},
		{"--call", butNot("pkg.Service/Method", isDotted), to("--call")},
		{"--http", text, to("--http")},
	}, same(text, "--rps --arrivals --ramp-to --burst --goal --steps --conn --inflight --timeout --warm-up --repeat --seed"),
		same(text, "--host --user --bearer --rows --cacert --cert --key --proto --import-path --protoset"),
		same(text, "--messages --pace --expect --fail-if --baseline --junit --markdown --metrics --traceparent --from --link --unix-socket"),
		same(none, "-h --help --random --plaintext --json --yes-i-may"),
	),
	fits: func(c *command) bool {
		// In ghz --insecure means cleartext; curl joins data, and takes JSON behind --json.
		cleartext := len(c.kept["insecure"]) > 0 && c.isBareGRPC()
		return !cleartext && len(c.operands) <= 1 && len(c.kept["-d"]) <= 1
	},
}

var ownData = by(code("-d"), func(c *command, value string) error {
	c.keep("-d", value)
	c.set("-d", value)
	return nil
})

// isAt is the standard input, as grpcurl and ghz have it.
func isAt(value string) bool { return value == "@" }

// same are flags that stay as they are.
func same(value shape, names string) []option {
	options := []option{}
	for name := range strings.FieldsSeq(names) {
		rule := to(name)
		if value.takes == nothing {
			rule = on(name)
		}
		options = append(options, option{name, value, rule})
	}
	return options
}

// isBareGRPC reports whether the line calls gRPC at an address without a scheme.
func (c *command) isBareGRPC() bool {
	return (c.has("--call") || c.has("--proto") || c.has("--protoset")) &&
		len(c.operands) > 0 && !strings.Contains(c.operands[0], "://")
}

// isGRPC reports whether the line calls gRPC, whatever the scheme.
func (c *command) isGRPC() bool {
	return c.isBareGRPC() || len(c.operands) > 0 && strings.HasPrefix(c.operands[0], "grpc")
}

// isThousands is a number that oha writes short.
func isThousands(value string) bool { return countPattern.MatchString(value) && !isWhole(value) }

// isDotted is a method as ghz may write it.
func isDotted(value string) bool {
	return strings.Contains(value, ".") && !strings.Contains(value, "/")
}

// isFormat is what other tools' -o is given.
func isFormat(value string) bool {
	return slices.Contains([]string{"csv", "json", "j", "plain-text", "pt", "-", "/dev/null", "nul"}, value) ||
		strings.HasPrefix(value, "path:")
}

// Flags are the names of wirelab load's flags, with their dashes, as this package knows them.
func Flags() []string {
	names := []string{}
	for _, o := range own.options {
		names = append(names, strings.Fields(o.names)...)
	}
	return names
}
