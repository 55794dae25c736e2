package takeover

import (
	"fmt"
	"strconv"
	"strings"
)

// oha is hatoo/oha 1.14, with the flags of its README.
var oha = &tool{
	name: "oha", purpose: "HTTP load",
	letters: true,
	options: []option{
		{"-n", counted, by(code("-n"), thousands("-n"))},
		{"-c", counted, by(code("-c"), thousands("-c"))},
		{"-p", number, later("-p", code("-c")+" times as many on "+code("--conn pool:N")+"; of HTTP/2 only")},
		{"-z", duration, to("-z")},
		{"-w --wait-ongoing-requests-after-deadline", none, without("calls under way at the end are always waited for")},
		{"-q", rate, by(code("--rps")+" (a total)", positiveRate)},
		{"--burst-delay", duration, later("--burst-delay", code("--rps")+" with "+code("--burst"))},
		{"--burst-rate", number, later("--burst-rate", code("--burst"))},
		{"--rand-regex-url", none, no("URLs are not made from patterns: write those to call to a file, and give --rows FILE.csv")},
		{"--urls-from-file", none, no("a list of URLs is not read: give one URL, and what differs by --rows FILE.csv")},
		{"--max-repeat --dump-urls", number, no("URLs are not made from patterns")},
		{"--latency-correction", none, without("with a rate, wirelab always times from the intended instant")},
		{"--no-tui --no-color --stats-success-breakdown", none, without(noShow)},
		{"--fps", number, without(noShow)},
		{"-m --method", method, to("-m")},
		{"-H", header, headerLine},
		{"-t", duration, to("--timeout")},
		{"--connect-timeout", duration, without(noConnecting)},
		{"-A", mediaType, asHeader("Accept")},
		{"-d", text, literalBody},
		{"-D", file, to("-D")},
		{"-Z", file, by(code("--rows"), func(c *command, value string) error {
			if strings.HasSuffix(value, ".jsonl") {
				c.set("--rows", value)
				return nil
			}
			return c.refusal("a body a line is read from a .jsonl file: name it so, and give --rows FILE.jsonl")
		})},
		{"-F --form", text, no(noForm)},
		{"-T", mediaType, to("-T")},
		{"-a", user, to("--user")},
		{"--aws-session --aws-sigv4", text, no("requests are not signed for AWS")},
		{"-x --proxy-header --proxy-http-version", text, no(noProxy)},
		{"--proxy-http2", none, no(noProxy)},
		{"--http-version", valueOf("1.1, 2 or 3", isOhaHTTP), by(code("--http"), ohaHTTP)},
		{"--http2", none, on("--http", "2")},
		{"--host", text, to("--host")},
		{"--disable-compression", none, without("wirelab asks for no compression")},
		{"-r --redirect", number, without(noRedirects)},
		{"--disable-keepalive", none, on("--conn", "new")},
		{"--no-pre-lookup", none, without("a name is looked up once, before the load")},
		{"--ipv4 --ipv6", none, no("give the address that is meant in the target, and the name by --host")},
		{"--cacert", file, to("--cacert")},
		{"--cert", file, to("--cert")},
		{"--key", file, to("--key")},
		{"--insecure", none, on("-k")},
		{"--connect-to", text, connectTo("--connect-to")},
		{"--unix-socket", file, to("--unix-socket")},
		{"--db-url", file, no("single calls are not written to a database: run with -o DIR, then wirelab export DIR")},
		{"--debug", none, no("to see one answer, leave it out: the first call is a probe, and is shown")},
		{"-o --output", butNot("a file", isFormat), by(code("-o")+": a directory", func(c *command, value string) error {
			if strings.HasSuffix(value, ".json") {
				return c.refusal("a summary goes to standard output: write --json > " + quote(excerpt(value)))
			}
			c.set("-o", value)
			return nil
		})},
		{"--output-format", text, by(code("--json")+" for json", ohaFormat)},
		{"-j --json", none, on("--json")},
		{"-u --time-unit", valueOf("a unit", isTimeUnit), without(noShow)},
	},
	fits: calls,
	usual: func(c *command) {
		c.usually("-c", "50")
		if !c.has("-z") {
			c.usually("-n", "200")
		}
		ownConnections(c)
	},
	settle: func(c *command) error {
		c.timed()
		if err := ohaBurst(c); err != nil {
			return err
		}
		if parallel := c.kept1("-p"); parallel != "" {
			if c.get("--http") != "2" && c.get("--http") != "3" {
				c.tell("-p %s is left out: without HTTP/2 a connection carries one call at a time", parallel)
			} else if err := c.spread("-p", parallel); err != nil {
				return err
			}
		}
		if err := c.oneTarget(); err != nil {
			return err
		}
		return c.redirectAddress()
	},
}

// thousands takes a number with oha's k or m.
func thousands(flag string) func(*command, string) error {
	return func(c *command, value string) error {
		digits := strings.TrimRight(value, "kKmM")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > 1e12 {
			return c.refusal(fmt.Sprintf("%s is too large", excerpt(value)))
		}
		switch strings.ToLower(value[len(digits):]) {
		case "k":
			n *= 1_000
		case "m":
			n *= 1_000_000
		}
		c.set(flag, strconv.FormatInt(n, 10))
		return nil
	}
}

// positiveRate takes a total rate; none is no rate.
func positiveRate(c *command, value string) error {
	if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 {
		c.set("--rps", value)
		return nil
	}
	c.tell("%s %s is left out: it means no rate", c.written, value)
	return nil
}

func isOhaHTTP(value string) bool {
	return strings.Contains(" 0.9 1.0 1 1.1 2 3 ", " "+value+" ") && value != ""
}

func ohaHTTP(c *command, value string) error {
	switch value {
	case "0.9", "1.0":
		return c.refusal("wirelab speaks HTTP/1.1, 2 and 3: write --http 1.1")
	case "1":
		value = "1.1"
	}
	c.set("--http", value)
	return nil
}

func ohaFormat(c *command, value string) error {
	switch value {
	case "json":
		c.set("--json")
	case "text":
	case "quiet":
		return c.refusal("write > /dev/null behind the command, with -o DIR to keep the run")
	default:
		return c.refusal("run with -o DIR, then wirelab export DIR --format csv")
	}
	return nil
}

func isTimeUnit(value string) bool {
	return strings.Contains(" ns us ms s m h ", " "+value+" ") && value != ""
}

// ohaBurst settles bursts: so many requests, then a pause.
func ohaBurst(c *command) error {
	delay, size := c.kept1("--burst-delay"), c.kept1("--burst-rate")
	if delay == "" {
		return nil
	}
	if c.has("--rps") {
		c.tell("--burst-delay is left out: with -q oha does not look at it")
		return nil
	}
	if size == "" {
		size = "1"
	}
	n, err := strconv.ParseFloat(size, 64)
	every := parseClock(delay)
	if err != nil || n < 1 || every <= 0 {
		return fmt.Errorf("--burst-delay %s --burst-rate %s: want both above zero", delay, size)
	}
	c.set("--rps", plain(n/every.Seconds()))
	c.set("--burst", size)
	c.tell("%s calls each %s are --rps %s --burst %s", size, delay, c.get("--rps"), size)
	return nil
}
