package takeover

// hey is rakyll/hey 0.1, with the flags of its main.go.
var hey = &tool{
	name: "hey", purpose: "HTTP load",
	oneDash: true,
	options: []option{
		{"-n", number, to("-n")},
		{"-c", number, to("-c")},
		{"-q", rate, later("-q", code("--rps")+", times the clients: hey has a rate a client")},
		{"-z", duration, to("-z")},
		{"-o", valueOf("csv", func(v string) bool { return v == "csv" }), by("refused: run with "+code("-o DIR")+", then "+code("wirelab export"), func(c *command, _ string) error {
			return c.refusal("it writes csv: run with -o DIR, then wirelab export DIR --format csv")
		})},
		{"-m", method, to("-m")},
		{"-H", header, headerLine},
		{"-t", number, inSeconds("--timeout")},
		{"-A", mediaType, asHeader("Accept")},
		{"-d", text, literalBody},
		{"-D", file, to("-D")},
		{"-T", mediaType, to("-T")},
		{"-U", text, asHeader("User-Agent")},
		{"-a", user, to("--user")},
		{"-x", text, no(noProxy)},
		{"--h2", none, on("--http", "2")},
		{"--host", text, to("--host")},
		{"--disable-compression", none, without("wirelab asks for no compression")},
		{"--disable-keepalive", none, on("--conn", "new")},
		{"--disable-redirects", none, without("wirelab follows none")},
		{"--cpus", number, without(noEngine)},
		{"-h", text, no("hey calls it deprecated: write -H")},
	},
	fits: calls,
	usual: func(c *command) {
		c.usually("-c", "50")
		if !c.has("-z") {
			c.usually("-n", "200")
		}
		if c.has("-d") || c.has("-D") {
			c.usually("-T", "text/html")
		}
		ownConnections(c)
	},
	settle: func(c *command) error {
		c.timed()
		c.perClient("-q", c.kept1("-q"))
		return c.oneTarget()
	},
}

// ownConnections is what most tools for HTTP do: a connection for each client.
func ownConnections(c *command) {
	if !c.has("--conn") {
		c.set("--conn", "per-worker")
	}
}
