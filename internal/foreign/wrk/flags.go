// Package wrk reads commands of wg/wrk and giltene/wrk2, and runs wrk as a client in a
// measurement.
package wrk

import (
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// Flags holds the flags of wg/wrk 4.2, and the flags that giltene/wrk2 adds.
var Flags = &flags.Tool{
	Name:    "wrk",
	Letters: true,
	Options: []flags.Option{
		flags.Flag("-t --threads", flags.Number, flags.Ignored(flags.NoEngine)),
		flags.Flag("-c --connections", flags.Number, flags.To("-c")),
		flags.Flag("-d --duration", flags.Duration, flags.To("-z")),
		flags.Flag("-s --script", flags.File, flags.Refused("Lua is not run: write -m, -H and -d instead, and --rows for data that differs from call to call")),
		flags.Flag("-H --header", flags.Header, flags.HeaderLine),
		flags.Flag("-L -U --latency --u_latency", flags.None, flags.Ignored("percentiles are always shown")),
		flags.Flag("--timeout", flags.Clock, flags.InSeconds("--timeout")),
		flags.Flag("-R --rate", flags.Rate, flags.By(flags.Code("--rps")+" (wrk2)", flags.PositiveRate)),
		flags.Flag("-v --version", flags.None, flags.Refused("write wirelab version")),
	},
	Usual: func(c *flags.Command) {
		c.Usually("-c", "10")
		c.Usually("-z", "10s")
		c.OwnConnections()
	},
	Fits: func(c *flags.Command) bool {
		return c.Has("-z") && len(c.Operands) == 1 && !strings.HasPrefix(c.Operands[0], "grpc")
	},
	Settle: func(c *flags.Command) error { return c.OneTarget() },
}
