package takeover

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ghz is bojand/ghz 0.121, with the flags of its cmd/ghz.
var ghz = &tool{
	name: "ghz", purpose: "gRPC load",
	oneDash: true, letters: true,
	options: slices.Concat(ghzCalls, ghzLoad, ghzSecurity, ghzReports),
	fits: func(c *command) bool {
		return c.has("--from") || c.isGRPC() && len(c.operands) == 1
	},
	usual: func(c *command) {
		if c.has("--from") { // what the file says is usual there
			return
		}
		if !c.changes("--concurrency-schedule") {
			c.usually("-c", "50")
			if !c.has("-z") && !c.changes("--load-schedule") {
				c.usually("-n", "200")
			}
		}
		if !c.has("--conn") {
			c.set("--conn", "shared")
		}
	},
	settle: settleGhz,
}

var ghzCalls = []option{
	{"--config", file, by(code("--from ghz FILE"), func(c *command, value string) error {
		c.set("--from", "ghz")
		c.operands = append([]string{value}, c.operands...)
		return nil
	})},
	{"--proto", file, to("--proto")},
	{"--protoset", file, to("--protoset")},
	{"--call", text, by(code("--call"), func(c *command, value string) error {
		c.set("--call", slashed(value))
		return nil
	})},
	{"-i --import-paths", text, by(code("--import-path")+" for each", func(c *command, value string) error {
		for path := range strings.SplitSeq(value, ",") {
			c.set("--import-path", path)
		}
		return nil
	})},
	{"-d --data", text, by(code("-d"), standardInput)},
	{"-D --data-file", file, to("-D")},
	{"-b --binary", none, no(noBinary)},
	{"-B --binary-file", file, no(noBinary)},
	{"-m --metadata", object, by(code("-H")+" for each", metadata)},
	{"-M --metadata-file", file, no("a file of metadata is not read: write each entry as -H 'name: value'")},
	{"--stream-interval", duration, by(code("--pace"), unlessZero("--pace"))},
	{"--stream-call-count", number, by(code("--messages"), unlessZero("--messages"))},
	{"--stream-call-duration", duration, by("refused, unless zero: "+code("--messages")+" with "+code("--pace"), func(c *command, value string) error {
		if parseClock(value) == 0 {
			return nil
		}
		return c.refusal("a stream ends by its messages: give --messages N with --pace D")
	})},
	{"--stream-dynamic-messages", maybe, without("templates are filled once a message, anyway")},
	{"--reflect-metadata", text, no("give what it is asked for without reflection: --proto FILE or --protoset FILE")},
	{"--disable-template-functions --disable-template-data", maybe, without("data is sent as it stands, unless --rows fills it")},
	{"-e --enable-compression", none, no("messages are sent as they are, without compression: leave it out")},
	{"--max-recv-message-size --max-send-message-size", text, without("messages of any size that wirelab takes are sent and received")},
}

const noBinary = "the message is made from JSON: protoc --decode=TYPE FILE.proto < MESSAGE shows its fields; write them as JSON to a file, and give -D FILE"

var ghzLoad = []option{
	{"--async", maybe, later("--async", "left out with "+code("--rps")+": wirelab then waits for no answer; refused without")},
	{"-r --rps", number, by(code("--rps"), positiveRate)},
	{"--load-schedule", text, later("--load-schedule", code("--rps")+" with "+code("--ramp-to")+" and "+code("-z"))},
	{"--load-start --load-end --load-step-duration --load-max-duration", text, ofSchedule},
	{"--load-step", text, ofSchedule},
	{"-c --concurrency", number, to("-c")},
	{"--concurrency-schedule", text, later("--concurrency-schedule", code("--steps")+" with "+code("-z")+" for each")},
	{"--concurrency-start --concurrency-end --concurrency-step-duration --concurrency-max-duration", text, ofSchedule},
	{"--concurrency-step", text, ofSchedule},
	{"-n --total", number, to("-n")},
	{"-t --timeout", duration, to("--timeout")},
	{"-z --duration", duration, by(code("-z"), unlessZero("-z"))},
	{"-x --max-duration", duration, later("-x", code("-z")+", whichever of it and "+code("-n")+" ends first")},
	{"--duration-stop", text, without("calls under way at the end are waited for, and counted")},
	{"--connections", number, by(code("--conn shared")+", or "+code("pool:N"), func(c *command, value string) error {
		if c.set("--conn", "pool:"+value); value == "1" {
			c.set("--conn", "shared")
		}
		return nil
	})},
	{"--connect-timeout", duration, without(noConnecting)},
	{"--keepalive", duration, without("under load a connection is never idle")},
	{"--lb-strategy", text, no("one address is called: load each, or what balances between them")},
	{"--cpus", number, without(noEngine)},
	{"--skipFirst", number, by("left out, unless zero: "+code("--warm-up")+" takes a duration", func(c *command, value string) error {
		if value != "0" {
			c.tell("%s %s is left out: to leave out a warm-up, give its duration, as in --warm-up 1s", c.written, value)
		}
		return nil
	})},
}

var ghzSecurity = []option{
	{"--insecure", maybe, later("--insecure", "the scheme "+code("grpc://"))},
	{"--skipTLS", maybe, on("-k")},
	{"--cacert", file, to("--cacert")},
	{"--cert", file, to("--cert")},
	{"--key", file, to("--key")},
	{"--cname --authority", text, by(code("--host"), func(c *command, value string) error {
		if host := c.get("--host"); host != "" && host != value {
			return c.refusal(fmt.Sprintf("one name stands for both here, and %s is given already: name the server as its certificate does", excerpt(host)))
		}
		c.set("--host", value)
		return nil
	})},
}

var ghzReports = []option{
	{"-o --output", butNot("a file", isFormat), later("-o", "refused with -O: the summary goes to standard output; otherwise "+code("-o")+", a directory")},
	{"-O --format", text, later("-O", code("--json")+" for json and pretty; else refused: "+code("wirelab report")+" and "+code("wirelab export")+" write others")},
	{"--count-errors", maybe, without("failed calls are counted apart, with their own times")},
	{"--name --tags", text, without("name the run by -o DIR")},
	{"--debug", file, without("with -o DIR each failure is in the run")},
}

// changes reports whether a schedule changes a figure.
func (c *command) changes(schedule string) bool {
	kind := c.kept1(schedule)
	return kind != "" && kind != "const"
}

// ofSchedule keeps a value under its flag's own name.
var ofSchedule = by("as the schedule", func(c *command, value string) error {
	c.keep("--"+strings.TrimLeft(c.written, "-"), value)
	return nil
})

// unlessZero sets a flag, unless the value says that there is none.
func unlessZero(flag string) func(*command, string) error {
	return func(c *command, value string) error {
		if value != "0" && parseClock(value) > 0 {
			c.set(flag, value)
		}
		return nil
	}
}

// standardInput takes data; @ is the standard input, as in grpcurl.
func standardInput(c *command, value string) error {
	if value == "@" {
		value = "@-"
	} else if strings.HasPrefix(value, "@") && c.pasted {
		return c.refusal("only @ alone means standard input: data from a file is -D FILE")
	}
	c.set("-d", value)
	return nil
}

// slashed is pkg.Service.Method as pkg.Service/Method.
func slashed(method string) string {
	if at := strings.LastIndexByte(method, '.'); at > 0 && !strings.Contains(method, "/") {
		return method[:at] + "/" + method[at+1:]
	}
	return strings.TrimPrefix(method, "/")
}

// metadata takes a JSON object of text.
func metadata(c *command, value string) error {
	decoder := json.NewDecoder(strings.NewReader(value))
	var entries map[string]string
	if err := decoder.Decode(&entries); err != nil {
		return c.refusal("metadata is a JSON object of text, as in '{\"name\":\"value\"}'")
	}
	names := []string{}
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c.set("-H", name+": "+entries[name])
	}
	return nil
}

func settleGhz(c *command) error {
	c.timed()
	if err := ghzFormat(c); err != nil {
		return err
	}
	if limit := parseClock(c.kept1("-x")); limit > 0 {
		c.set("-z", c.kept1("-x"))
		if c.has("-n") || !c.pasted {
			c.tell("-x %s is -z %s: of it and -n, whichever ends first", c.kept1("-x"), c.kept1("-x"))
		}
	}
	if err := ghzSchedules(c); err != nil {
		return err
	}
	if len(c.kept["--async"]) > 0 && c.kept1("--async") != "false" {
		if !c.has("--rps") {
			return fmt.Errorf("--async of ghz: calls that wait for no answer need a rate: give --rps N")
		}
		c.tell("--async is left out: with --rps no call waits for another's answer")
	}
	return ghzTarget(c)
}

// ghzTarget settles the address. Where cleartext is asked for, the target says so; without,
// it stays as it is: wirelab asks for TLS, as ghz does.
func ghzTarget(c *command) error {
	if c.has("--from") {
		return nil
	}
	if len(c.operands) == 0 {
		if c.pasted {
			return fmt.Errorf("the ghz command names no host: write it behind the flags, as in 127.0.0.1:50051")
		}
		return nil
	}
	if len(c.operands) > 1 {
		return fmt.Errorf("the ghz command has more than one host: %s and %s", excerpt(c.operands[0]), excerpt(c.operands[1]))
	}
	if c.pasted && !c.has("--call") {
		return fmt.Errorf("the ghz command names no method: add --call pkg.Service/Method")
	}
	c.operands[0] = strings.TrimPrefix(c.operands[0], "dns:///")
	if len(c.kept["--insecure"]) == 0 || c.kept1("--insecure") == "false" {
		return nil
	}
	c.cleartext()
	if !c.pasted {
		c.tell("--insecure is read as ghz has it, cleartext: the target is %s (for TLS with any certificate write -k)", c.operands[0])
	}
	return nil
}

// cleartext writes target and method as one URL.
func (c *command) cleartext() {
	address := c.operands[0]
	if strings.HasPrefix(address, "unix:") || strings.Contains(address, "://") {
		return // a socket is called in cleartext anyway
	}
	c.operands[0] = "grpc://" + address
	if method := c.get("--call"); method != "" {
		c.operands[0] += "/" + method
		c.unset("--call")
	}
}

// ghzFormat settles where the results go.
func ghzFormat(c *command) error {
	format, output := c.kept1("-O"), c.kept1("-o")
	switch format {
	case "", "summary":
		if output != "" && (c.pasted || format != "") {
			return fmt.Errorf("-o %s of ghz: the summary goes to standard output: write > %s behind the command; -o is a directory here", excerpt(output), excerpt(output))
		}
		if output != "" {
			c.set("-o", output)
		}
		return nil
	case "json", "pretty":
		c.set("--json")
		if !c.pasted {
			c.tell("-O %s is read as --json", format)
		}
		if output != "" {
			return fmt.Errorf("-O %s -o %s of ghz: write --json > %s", format, excerpt(output), excerpt(output))
		}
		return nil
	case "html":
		return fmt.Errorf("-O html of ghz: run with -o DIR, then wirelab report DIR writes DIR/report.html")
	case "csv":
		return fmt.Errorf("-O csv of ghz: run with -o DIR, then wirelab export DIR --format csv")
	}
	return fmt.Errorf("-O %s of ghz: give --metrics :9090 to be read while it runs, or --json", excerpt(format))
}
