// Package ab reads commands of ab, the benchmark of the Apache HTTP server.
package ab

import "wirelab.dev/internal/foreign/flags"

// Tool holds the flags of ab 2.3, as in its manual page.
var Tool = &flags.Tool{
	Name:    "ab",
	Letters: true, Whole: true,
	Options: []flags.Option{
		flags.Flag("-n", flags.Number, flags.To("-n")),
		flags.Flag("-c", flags.Number, flags.To("-c")),
		flags.Flag("-t", flags.Number, flags.InSeconds("-z")),
		flags.Flag("-s", flags.Number, flags.InSeconds("--timeout")),
		flags.Flag("-k", flags.None, flags.On("--conn", "per-worker")),
		flags.Flag("-p", flags.File, flags.To("-D")),
		flags.Flag("-u", flags.File, flags.Function(flags.Code("-m PUT -D FILE"), func(c *flags.Command, file string) error {
			c.Set("-m", "PUT")
			c.Set("-D", file)
			return nil
		})),
		flags.Flag("-T", flags.MediaType, flags.To("-T")),
		flags.Flag("-m", flags.Method, flags.To("-m")),
		flags.Flag("-i", flags.None, flags.On("-m", "HEAD")),
		flags.Flag("-H", flags.Header, flags.HeaderLine),
		flags.Flag("-C", flags.Text, flags.AsHeader("Cookie: ")),
		flags.Flag("-A", flags.User, flags.To("--user")),
		flags.Flag("-E", flags.File, flags.To("--cert")),
		flags.Flag("-X -P", flags.Text, flags.Refused(flags.ProxyNote)),
		flags.Flag("-B", flags.Text, flags.Refused("the machine chooses the local address: leave the flag out")),
		flags.Flag("-Z -f", flags.Text, flags.Refused("ciphers and TLS versions cannot be chosen: leave the flag out")),
		flags.Flag("-g -e", flags.File, flags.Refused("run with -o DIR, then wirelab export DIR --format csv")),
		flags.Flag("-I", flags.None, flags.Refused("the handshake always names the server: --sni NAME changes the name")),
		flags.Flag("-b", flags.Number, flags.Ignored("the machine chooses the sizes of its buffers")),
		flags.Flag("-r", flags.None, flags.Ignored("a call that fails counts as failed")),
		flags.Flag("-l", flags.None, flags.Ignored("answers may have different lengths")),
		flags.Flag("-v", flags.Number, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("-x -y -z", flags.Text, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("-d -q -S -w", flags.None, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("-V -h", flags.None, flags.Refused("write wirelab version, or wirelab load --help")),
	},
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "1")
		if !c.Has("-z") {
			c.SetDefault("-n", "1")
		}
		if c.Has("-D") {
			c.SetDefault("-T", "text/plain")
		}
		c.SetDefault("--conn", "new")
	},
	Settle: func(c *flags.Command) error { return c.OneTarget() },
}
