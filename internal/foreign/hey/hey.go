// Package hey reads commands of rakyll/hey.
package hey

import (
	"slices"

	"wirelab.dev/internal/foreign/flags"
)

// Tool holds the flags of rakyll/hey 0.1, as in its main.go.
var Tool = &flags.Tool{
	Name:    "hey",
	OneDash: true,
	Options: slices.Concat([]flags.Option{
		flags.Flag("-n", flags.Number, flags.To("-n")),
		flags.Flag("-c", flags.Number, flags.To("-c")),
		flags.Flag("-q", flags.Rate, flags.Kept("-q", flags.Code("--rps")+", multiplied by the clients: hey has a rate per client")),
		flags.Flag("-o", flags.OneOfWords("csv", "csv"), flags.Refused("for CSV run with -o DIR, then wirelab export DIR --format csv").
			Named("refused: run with "+flags.Code("-o DIR")+", then "+flags.Code("wirelab export"))),
		flags.Flag("-m", flags.Method, flags.To("-m")),
		flags.Flag("-t", flags.Number, flags.InSeconds("--timeout")),
		flags.Flag("--host", flags.Text, flags.To("--host")),
		flags.Flag("-U", flags.Text, flags.AsHeader("User-Agent: ")),
		flags.Flag("-x", flags.Text, flags.Refused(flags.ProxyNote)),
		flags.Flag("--h2", flags.None, flags.On("--http", "2")),
		flags.Flag("--disable-redirects", flags.None, flags.Ignored("wirelab follows no redirects")),
		flags.Flag("--cpus", flags.Number, flags.Ignored(flags.ThreadsNote)),
		flags.Flag("-h", flags.Text, flags.Refused("the flag is deprecated in hey: write -H")),
	}, flags.HeyRequest),
	Fits: flags.CallsHTTP,
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "50")
		if !c.Has("-z") {
			c.SetDefault("-n", "200")
		}
		if c.Has("-d") || c.Has("-D") {
			c.SetDefault("-T", "text/html")
		}
		c.OwnConnections()
	},
	Settle: func(c *flags.Command) error {
		c.DropCountIfTimed()
		c.PerClient("-q", c.Last("-q"))
		return c.OneTarget()
	},
}
