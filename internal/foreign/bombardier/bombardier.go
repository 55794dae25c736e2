// Package bombardier reads commands of codesenberg/bombardier.
package bombardier

import (
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/foreign/flags"
)

var printPattern = pattern.Matcher(`^(i|intro|p|progress|r|result)(,(i|intro|p|progress|r|result))*$`)

// Tool holds the flags of codesenberg/bombardier 2.0, as in its args_parser.go.
var Tool = &flags.Tool{
	Name:    "bombardier",
	Letters: true,
	Options: []flags.Option{
		flags.Flag("-c --connections", flags.Number, flags.To("-c")),
		flags.Flag("-t --timeout", flags.Duration, flags.To("--timeout")),
		flags.Flag("-l --latencies", flags.None, flags.Ignored("percentiles are always shown")),
		flags.Flag("-m --method", flags.Method, flags.To("-m")),
		flags.Flag("-b --body", flags.Text, flags.Body),
		flags.Flag("-f --body-file", flags.NoneOf("a file", flags.IsWhole), flags.To("-D")),
		flags.Flag("-s --stream", flags.None, flags.Ignored("the body is sent from memory, with its length")),
		flags.Flag("--cert", flags.File, flags.To("--cert")),
		flags.Flag("--key", flags.File, flags.To("--key")),
		flags.Flag("-k --insecure", flags.None, flags.On("-k")),
		flags.Flag("-a --disableKeepAlives", flags.None, flags.On("--conn", "new")),
		flags.Flag("-H --header", flags.Header, flags.HeaderLine),
		flags.Flag("-n --requests", flags.Number, flags.To("-n")),
		flags.Flag("-d --duration", flags.Duration, flags.To("-z")),
		flags.Flag("-r --rate", flags.Number, flags.Function(flags.Code("--rps"), flags.PositiveRate)),
		flags.Flag("--fasthttp", flags.None, flags.Ignored("the flag selects an engine of bombardier")),
		flags.Flag("--http1", flags.None, flags.On("--http", "1.1")),
		flags.Flag("--http2", flags.None, flags.On("--http", "2")),
		flags.Flag("-p --print", flags.Value("what to print", printPattern), flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("-q --no-print", flags.None, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("-o --format", flags.Value("json or plain-text", func(v string) bool { return flags.IsFormat(v) && v != "csv" && v[0] != '-' }), flags.OneOf(flags.Code("--json")+" for json",
			map[string]flags.Rule{"json": flags.On("--json"), "j": flags.On("--json"), "plain-text": flags.Nothing, "pt": flags.Nothing},
			flags.Refused("templates are not supported: write --json, and fill yours from the output"))),
	},
	Fits: func(c *flags.Command) bool {
		// curl's -b sets cookies
		return flags.CallsHTTP(c) && (len(c.Kept("body")) == 0 || c.Has("-m"))
	},
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "125")
		if !c.Has("-n") {
			c.SetDefault("-z", "10s")
		}
		c.OwnConnections()
	},
	Settle: func(c *flags.Command) error { return c.OneTarget() },
}
