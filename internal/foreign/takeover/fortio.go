package takeover

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// fortio is fortio/fortio 1.75, with the flags of fortio load.
var fortio = &tool{
	name: "fortio", purpose: "HTTP and gRPC load",
	oneDash: true,
	options: slices.Concat(fortioCalls, fortioLoad),
	fits: func(c *command) bool {
		if len(c.operands) > 0 && c.operands[0] == "load" {
			return len(c.operands) <= 2 && len(c.kept["body"]) <= 1
		}
		return calls(c)
	},
	usual: func(c *command) {
		c.usually("-c", "4")
		if !c.has("--rps") && len(c.kept["-qps"]) == 0 {
			c.usually("--rps", "8")
		}
		if !c.has("-n") {
			c.usually("-z", "5s")
		}
		ownConnections(c)
	},
	settle: settleFortio,
}

var fortioCalls = []option{
	{"-H", header, headerLine},
	{"-X", method, to("-m")},
	{"-L", none, without(noRedirects)},
	{"--payload", text, literalBody},
	{"--payload-file", file, to("-D")},
	{"--payload-size", number, no("write data of that size to a file, and give -D FILE")},
	{"--content-type", mediaType, to("-T")},
	{"--user", user, to("--user")},
	{"--h2", none, on("--http", "2")},
	{"--http1.0", none, no("wirelab speaks HTTP/1.1, 2 and 3")},
	{"--stdclient --std-client", none, without("it names an engine of fortio's")},
	{"--compression", none, on("-H", "Accept-Encoding: gzip")},
	{"-k --https-insecure", none, on("-k")},
	{"--cert", file, to("--cert")},
	{"--key", file, to("--key")},
	{"--cacert", file, to("--cacert")},
	{"--mtls", none, without("--cert and --key say so")},
	{"--resolve", valueOf("an IP address", isIP), later("fortio -resolve", "the address in the target, and "+code("--host"))},
	{"--unix-socket", file, to("--unix-socket")},
	{"--keepalive", maybe, by(code("--conn new")+" for false", func(c *command, value string) error {
		if value == "false" {
			c.set("--conn", "new")
		}
		return nil
	})},
	{"--connection-reuse", text, no("connections are kept, or with --conn new opened for each call")},
	{"--grpc", none, later("-grpc", "a call of "+code("grpc.health.v1.Health/Check"))},
	{"--ping", none, later("-ping", "a call of "+code("fgrpc.PingServer/Ping"))},
	{"--grpc-method", text, by(code("--call"), func(c *command, value string) error {
		c.keep("-grpc", "")
		c.set("--call", slashed(value))
		return nil
	})},
	{"--health", none, later("-grpc", "a call of "+code("grpc.health.v1.Health/Check"))},
	{"--healthservice", text, later("-healthservice", "the service in "+code("-d"))},
	{"--grpc-compression", none, no("messages are sent as they are, without compression: leave it out")},
	{"-s", number, later("-s", code("-c")+" times as many on "+code("--conn pool:N"))},
}

var fortioLoad = []option{
	{
		"--qps", valueOf("a number, or max", func(v string) bool { return v == "max" || v == "-1" || isNumber(v) }),
		by(code("--rps")+" (a total)", func(c *command, value string) error {
			c.keep("-qps", value)
			if value == "max" || value == "-1" {
				return nil
			}
			return positiveRate(c, value)
		}),
	},
	{"-c", number, to("-c")},
	{"-n", number, by(code("-n"), func(c *command, value string) error {
		if value != "0" {
			c.set("-n", value)
		}
		return nil
	})},
	{"-t", duration, by(code("-z"), func(c *command, value string) error {
		if parseClock(value) == 0 {
			return c.refusal("a run without an end is none here: write -z D")
		}
		c.set("-z", value)
		return nil
	})},
	{"--timeout", duration, to("--timeout")},
	{"--jitter", none, on("--arrivals", "poisson")},
	{"--uniform --nocatchup --sequential-warmup", maybe, without("each call has its own intended instant, spread evenly")},
	{"--calc-qps", none, no("give the rate itself: --rps N")},
	{"-p --percentiles", text, without("percentiles are always shown")},
	{"-r", rate, without("times are kept to three digits")},
	{"--offset", duration, without("times are kept to three digits")},
	{"-a", none, without("a run is kept by -o DIR")},
	{"--json", valueOf("a file, as in run.json, or -", func(v string) bool { return v == "-" || strings.HasSuffix(v, ".json") }), by(code("--json"), func(c *command, value string) error {
		if value != "-" {
			return c.refusal("the summary goes to standard output: write --json > " + quote(excerpt(value)))
		}
		c.set("--json")
		return nil
	})},
	{"--labels --data-dir --runid", text, without("name the run by -o DIR")},
	{"--loglevel --profile --access-log-file --access-log-format", text, without(noShow)},
	{"--quiet --logger-force-color --logger-no-color", none, without(noShow)},
	{"--log-errors --allow-initial-errors --logger-json --logger-timestamp --logger-goroutine --logger-file-line", maybe, without(noShow)},
	{"--gomaxprocs --httpbufferkb", number, without(noEngine)},
	{"--abort-on", text, no("a run that fails is ended by its exit code: write --fail-if 'errors>0'")},
	{"--dns-method --resolve-ip-type", text, without("a name is looked up once, before the load")},
	{"--no-reresolve", none, without("a name is looked up once, before the load")},
	{"--curl", none, no("it calls once: the first call here is a probe, and is shown")},
}

func settleFortio(c *command) error {
	if len(c.operands) > 0 {
		switch verb := c.operands[0]; {
		case verb == "load":
			c.operands = c.operands[1:]
		case slices.Contains([]string{"server", "curl", "report", "redirect", "grpcping", "nc", "script", "proxies", "tcp-echo", "udp-echo"}, verb):
			return fmt.Errorf("fortio %s makes no load: give a command of fortio load", verb)
		}
	}
	if c.pasted && c.has("-n") && c.has("-z") {
		c.tell("-t %s is left out: with -n fortio ends by that alone", c.get("-z"))
		c.unset("-z")
	}
	if streams := c.kept1("-s"); streams != "" {
		if err := c.spread("-s", streams); err != nil {
			return err
		}
	}
	if len(c.kept["-grpc"])+len(c.kept["-ping"]) > 0 {
		return fortioGRPC(c)
	}
	if (c.has("-d") || c.has("-D") || c.has("-T")) && !c.has("-m") {
		c.set("-m", "POST")
	}
	if err := c.oneTarget(); err != nil {
		return err
	}
	if address := c.kept1("fortio -resolve"); address != "" {
		c.kept["--connect-to"] = []string{"::" + bracketed(address) + ":"}
	}
	return c.redirectAddress()
}

func isIP(value string) bool { return net.ParseIP(strings.Trim(value, "[]")) != nil }

func bracketed(address string) string {
	if strings.Contains(address, ":") {
		return "[" + strings.Trim(address, "[]") + "]"
	}
	return address
}

// fortioGRPC settles a call of gRPC: of a method, or one of fortio's two.
func fortioGRPC(c *command) error {
	if len(c.operands) != 1 {
		if c.pasted {
			return fmt.Errorf("the fortio command has %d addresses: want one, as in 127.0.0.1:8079", len(c.operands))
		}
		return nil
	}
	if !c.has("--call") {
		c.set("--call", "grpc.health.v1.Health/Check")
		if service := c.kept1("-healthservice"); service != "" {
			c.set("-d", fmt.Sprintf(`{"service":%q}`, service))
		}
		if len(c.kept["-ping"]) > 0 {
			c.set("--call", "fgrpc.PingServer/Ping")
		}
	}
	address, secure := strings.CutPrefix(c.operands[0], "https://")
	address = strings.TrimPrefix(address, "http://")
	c.operands[0] = strings.TrimSuffix(address, "/")
	c.cleartext()
	if secure || c.has("--cacert") || c.has("-k") {
		c.operands[0] = "grpcs" + strings.TrimPrefix(c.operands[0], "grpc")
	}
	return nil
}
