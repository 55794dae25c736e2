package takeover

import (
	"strings"
)

// h2load is nghttp2's h2load 1.70, with the flags of its manual page.
var h2load = &tool{
	name: "h2load", purpose: "HTTP load",
	letters: true, yield: "-d",
	options: []option{
		{"-n --requests", number, to("-n")},
		{"-c --clients", number, to("-c")},
		{"-t --threads", number, without(noEngine)},
		{"-i --input-file", file, no("a list of URLs is not read: give one URL, and what differs by --rows FILE.csv")},
		{"-m --max-concurrent-streams", number, later("-m", code("-c")+" times as many on "+code("--conn pool:N"))},
		{"-f --max-frame-size", text, without("frames are of the usual size")},
		{"-w --window-bits", number, without("windows are those of wirelab's client")},
		{"-W --connection-window-bits", number, without("windows are those of wirelab's client")},
		{"--header-table-size --encoder-header-table-size", text, without("the table of header fields is of the usual size")},
		{"-H --header", header, headerLine},
		{"--ciphers --tls13-ciphers --groups --ktls", text, no("TLS 1.3 with the usual suites is spoken")},
		{"-p --no-tls-proto", text, by(code("--http"), func(c *command, value string) error { return alpn(c, value) })},
		{"-d --data", butNot("a file", isDuration), by(code("-D"), func(c *command, value string) error {
			c.keep("body", value)
			c.set("-D", value)
			return nil
		})},
		{"-r --rate", number, no("it is a rate of connections: for a rate of calls write --rps N, with --conn new for a connection each")},
		{"--rate-period", clock, no("it is a rate of connections: write --rps N")},
		{"-D --duration", clock, inSeconds("-z")},
		{"--warm-up-time", clock, inSeconds("--warm-up")},
		{"-T --connection-active-timeout", clock, no("connections stay open: for one a call write --conn new")},
		{"-N --connection-inactivity-timeout", clock, inSeconds("--timeout")},
		{"--timing-script-file", file, no("calls are sent by a rate: write --rps N, or --arrivals poisson")},
		{"-B --base-uri", text, by(code("--unix-socket")+" for unix:PATH; another is the target", func(c *command, value string) error {
			if socket, is := strings.CutPrefix(value, "unix:"); is {
				c.set("--unix-socket", socket)
				return nil
			}
			return c.refusal("write the whole URL as the target")
		})},
		{"--alpn-list --npn-list", text, by(code("--http")+", the first", func(c *command, value string) error { return alpn(c, value) })},
		{"--h1", none, on("--http", "1.1")},
		{"--h3", none, on("--http", "3")},
		{"--log-file", file, no("single calls are in the run: give -o DIR, then wirelab export DIR")},
		{"--qlog-file-base", file, no("qlog is not written")},
		{"--connect-to", text, later("h2load --connect-to", "the address in the target, and "+code("--host"))},
		{"--rps", rate, later("--rps", code("--rps")+", times the clients: h2load has a rate a client")},
		{"--sni", text, to("--host")},
		{"-v --verbose", none, without(noShow)},
		{"--no-udp-gso", none, without("it concerns h2load's own sockets")},
	},
	fits: calls,
	usual: func(c *command) {
		c.usually("-c", "1")
		if !c.has("-z") {
			c.usually("-n", "1")
		}
		c.usually("--http", "2")
		ownConnections(c)
	},
	settle: func(c *command) error {
		c.timed()
		c.perClient("--rps", c.kept1("--rps"))
		if streams := c.kept1("-m"); streams != "" {
			if c.get("--http") == "1.1" {
				c.tell("-m %s is left out: requests are not pipelined on HTTP/1.1", streams)
				return c.oneTarget()
			}
			if !c.has("--http") {
				c.set("--http", "2")
			}
			if err := c.spread("-m", streams); err != nil {
				return err
			}
		}
		if err := c.oneTarget(); err != nil {
			return err
		}
		if to := c.kept1("h2load --connect-to"); to != "" {
			c.kept["--connect-to"] = []string{"::" + to}
		}
		return c.redirectAddress()
	},
}

// alpn takes the first protocol of a list as ALPN has them.
func alpn(c *command, list string) error {
	first, _, _ := strings.Cut(list, ",")
	version := map[string]string{"h2": "2", "h2c": "2", "h2-16": "2", "h2-14": "2", "http/1.1": "1.1", "h3": "3"}[first]
	if version == "" {
		return c.refusal("wirelab speaks HTTP/1.1, 2 and 3: write --http 2")
	}
	c.set("--http", version)
	return nil
}
