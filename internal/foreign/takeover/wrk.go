package takeover

import "strings"

// wrk is wg/wrk 4.2, and the flags that giltene/wrk2 adds.
var wrk = &tool{
	name: "wrk", purpose: "HTTP load",
	letters: true,
	options: []option{
		{"-t --threads", number, without(noEngine)},
		{"-c --connections", number, to("-c")},
		{"-d --duration", duration, to("-z")},
		{"-s --script", file, no("Lua is not run: say what it does by -m, -H, -d, or with --rows what differs from call to call")},
		{"-H --header", header, headerLine},
		{"-L -U --latency --u_latency", none, without("percentiles are always shown")},
		{"--timeout", clock, inSeconds("--timeout")},
		{"-R --rate", rate, by(code("--rps")+" (wrk2)", positiveRate)},
		{"-v --version", none, no("write wirelab version")},
	},
	usual: func(c *command) {
		c.usually("-c", "10")
		c.usually("-z", "10s")
		ownConnections(c)
	},
	fits: func(c *command) bool {
		return c.has("-z") && len(c.operands) == 1 && !strings.HasPrefix(c.operands[0], "grpc")
	},
	settle: func(c *command) error { return c.oneTarget() },
}
