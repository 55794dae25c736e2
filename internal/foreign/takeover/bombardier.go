package takeover

import "regexp"

var printPattern = regexp.MustCompile(`^(i|intro|p|progress|r|result)(,(i|intro|p|progress|r|result))*$`)

// bombardier is codesenberg/bombardier 2.0, with the flags of its args_parser.go.
var bombardier = &tool{
	name: "bombardier", purpose: "HTTP load",
	letters: true,
	options: []option{
		{"-c --connections", number, to("-c")},
		{"-t --timeout", duration, to("--timeout")},
		{"-l --latencies", none, without("percentiles are always shown")},
		{"-m --method", method, to("-m")},
		{"-b --body", text, literalBody},
		{"-f --body-file", butNot("a file", isWhole), to("-D")},
		{"-s --stream", none, without("the body is sent from memory, with its length")},
		{"--cert", file, to("--cert")},
		{"--key", file, to("--key")},
		{"-k --insecure", none, on("-k")},
		{"-a --disableKeepAlives", none, on("--conn", "new")},
		{"-H --header", header, headerLine},
		{"-n --requests", number, to("-n")},
		{"-d --duration", duration, to("-z")},
		{"-r --rate", number, by(code("--rps"), positiveRate)},
		{"--fasthttp", none, without("it names an engine of bombardier's")},
		{"--http1", none, on("--http", "1.1")},
		{"--http2", none, on("--http", "2")},
		{"-p --print", valueOf("what to print", printPattern.MatchString), without(noShow)},
		{"-q --no-print", none, without(noShow)},
		{"-o --format", valueOf("json or plain-text", func(v string) bool { return isFormat(v) && v != "csv" && v[0] != '-' }), by(code("--json")+" for json", func(c *command, value string) error {
			switch value {
			case "json", "j":
				c.set("--json")
			case "plain-text", "pt":
			default:
				return c.refusal("templates are not filled: write --json, and fill one from that")
			}
			return nil
		})},
	},
	fits: func(c *command) bool {
		return calls(c) && (len(c.kept["body"]) == 0 || c.has("-m")) // curl's cookie is -b too
	},
	usual: func(c *command) {
		c.usually("-c", "125")
		if !c.has("-n") {
			c.usually("-z", "10s")
		}
		ownConnections(c)
	},
	settle: func(c *command) error { return c.oneTarget() },
}
