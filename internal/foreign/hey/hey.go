// Package hey reads commands of rakyll/hey.
package hey

import (
	"slices"

	"wirelab.dev/internal/foreign/flags"
)

// Flags holds the flags of rakyll/hey 0.1, with the flags of its main.go.
var Flags = &flags.Tool{
	Name:    "hey",
	OneDash: true,
	Options: slices.Concat([]flags.Option{
		flags.Flag("-n", flags.Number, flags.To("-n")),
		flags.Flag("-c", flags.Number, flags.To("-c")),
		flags.Flag("-q", flags.Rate, flags.Kept("-q", flags.Code("--rps")+" times the clients: hey has a rate per client")),
		flags.Flag("-o", flags.Among("csv", "csv"), flags.Refused("it writes csv: run with -o DIR, then wirelab export DIR --format csv").
			Named("refused: run with "+flags.Code("-o DIR")+", then "+flags.Code("wirelab export"))),
		flags.Flag("-m", flags.Method, flags.To("-m")),
		flags.Flag("-t", flags.Number, flags.InSeconds("--timeout")),
		flags.Flag("-U", flags.Text, flags.AsHeader("User-Agent: ")),
		flags.Flag("-x", flags.Text, flags.Refused(flags.NoProxy)),
		flags.Flag("--h2", flags.None, flags.On("--http", "2")),
		flags.Flag("--disable-redirects", flags.None, flags.Ignored("wirelab follows none")),
		flags.Flag("--cpus", flags.Number, flags.Ignored(flags.NoEngine)),
		flags.Flag("-h", flags.Text, flags.Refused("it is deprecated in hey: write -H")),
	}, flags.HeyRequest),
	Fits: flags.CallsHTTP,
	Usual: func(c *flags.Command) {
		c.Usually("-c", "50")
		if !c.Has("-z") {
			c.Usually("-n", "200")
		}
		if c.Has("-d") || c.Has("-D") {
			c.Usually("-T", "text/html")
		}
		c.OwnConnections()
	},
	Settle: func(c *flags.Command) error {
		c.Timed()
		c.PerClient("-q", c.Last("-q"))
		return c.OneTarget()
	},
}
