// Package ghz reads commands, configurations and JSON reports of bojand/ghz. It also runs ghz as
// the client of a measurement.
package ghz

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/generator"
)

// Tool holds the flags of bojand/ghz 0.121, as in its cmd/ghz.
var Tool = &flags.Tool{
	Name:    "ghz",
	OneDash: true, Letters: true,
	IsFile: isFile, ReadFile: readFile,
	Options: options,
	Fits: func(c *flags.Command) bool {
		return c.Has("--from") || c.IsGRPC() && len(c.Operands) == 1
	},
	Usual: func(c *flags.Command) {
		if c.Has("--from") { // the file contains its own defaults
			return
		}
		if !hasSchedule(c, "--concurrency-schedule") {
			c.SetDefault("-c", "50")
			if !c.Has("-z") && !hasSchedule(c, "--load-schedule") {
				c.SetDefault("-n", "200")
			}
		}
		if !c.Has("--conn") {
			c.Set("--conn", "shared")
		}
	},
	Settle: settle,
}

var options = slices.Concat(callFlags, loadFlags, securityFlags, flags.Certificates, reportFlags)

var callFlags = []flags.Option{
	flags.Flag("--config", flags.File, flags.Function(flags.Code("--from ghz FILE"), func(c *flags.Command, value string) error {
		c.Set("--from", "ghz")
		c.Operands = append([]string{value}, c.Operands...)
		return nil
	})),
	flags.Flag("--proto", flags.File, flags.To("--proto")),
	flags.Flag("--protoset", flags.File, flags.To("--protoset")),
	flags.Flag("--call", flags.Text, flags.Changed("--call", flags.Slashed)),
	flags.Flag("-i --import-paths", flags.Text, flags.Function(flags.Code("--import-path")+" for each", func(c *flags.Command, value string) error {
		for path := range strings.SplitSeq(value, ",") {
			c.Set("--import-path", path)
		}
		return nil
	})),
	flags.Flag("-d --data", flags.Text, flags.Function(flags.Code("-d"), flags.StandardInput)),
	flags.Flag("-D --data-file", flags.File, flags.To("-D")),
	flags.Flag("-b --binary", flags.None, flags.Function(flags.Code("--binary")+" of standard input", func(c *flags.Command, _ string) error {
		c.Set("--binary")
		c.Set("-d", "@-")
		return nil
	})),
	flags.Flag("-B --binary-file", flags.File, flags.Function(flags.Code("--binary")+" with "+flags.Code("-D"), func(c *flags.Command, value string) error {
		c.Set("--binary")
		c.Set("-D", value)
		return nil
	})),
	flags.Flag("-m --metadata", flags.Object, flags.Function(flags.Code("-H")+" for each", metadata)),
	flags.Flag("-M --metadata-file", flags.File, flags.Refused("files of metadata are not supported: write each entry as -H 'name: value'")),
	flags.Flag("--stream-interval", flags.Duration, flags.UnlessZero("--pace")),
	flags.Flag("--stream-call-count", flags.Number, flags.UnlessZero("--messages")),
	flags.Flag("--stream-call-duration", flags.Duration, flags.Either(flags.IsAboveZero, flags.Refused("a stream ends by its messages: give --messages N with --pace D"), flags.Nothing).
		Named("refused, unless zero: "+flags.Code("--messages")+" with "+flags.Code("--pace"))),
	flags.Flag("--stream-dynamic-messages", flags.Maybe, flags.Ignored("templates are filled once per message anyway")),
	flags.Flag("--reflect-metadata", flags.Text, flags.Refused("reflection has no metadata: give --proto FILE or --protoset FILE instead")),
	flags.Flag("--disable-template-functions --disable-template-data", flags.Maybe, flags.Ignored("data is sent unchanged, unless --rows fills it")),
	flags.Flag("-e --enable-compression", flags.None, flags.On("-e", "gzip")),
	flags.Flag("--max-recv-message-size --max-send-message-size", flags.Text, flags.Ignored("wirelab has its own limit of message sizes")),
}

var loadFlags = []flags.Option{
	flags.Flag("--async", flags.Maybe, flags.Kept("--async", "left out with "+flags.Code("--rps")+": wirelab then does not wait for answers; refused without "+flags.Code("--rps"))),
	flags.Flag("-r --rps", flags.Number, flags.Function(flags.Code("--rps"), flags.PositiveRate)),
	flags.Flag("--load-schedule", flags.Text, flags.Kept("--load-schedule", flags.Code("--rps")+" with "+flags.Code("--ramp-to")+" and "+flags.Code("-z"))),
	flags.Flag("--load-start --load-end --load-step-duration --load-max-duration", flags.Text, keepForSchedule),
	flags.Flag("--load-step", flags.Text, keepForSchedule),
	flags.Flag("-c --concurrency", flags.Number, flags.To("-c")),
	flags.Flag("--concurrency-schedule", flags.Text, flags.Kept("--concurrency-schedule", flags.Code("--steps")+" with "+flags.Code("-z")+" for each")),
	flags.Flag("--concurrency-start --concurrency-end --concurrency-step-duration --concurrency-max-duration", flags.Text, keepForSchedule),
	flags.Flag("--concurrency-step", flags.Text, keepForSchedule),
	flags.Flag("-n --total", flags.Number, flags.To("-n")),
	flags.Flag("-t --timeout", flags.Duration, flags.To("--timeout")),
	flags.Flag("-z --duration", flags.Duration, flags.UnlessZero("-z")),
	flags.Flag("-x --max-duration", flags.Duration, flags.Kept("-x", flags.Code("-z")+"; the run ends by "+flags.Code("-z")+" or by "+flags.Code("-n"))),
	flags.Flag("--duration-stop", flags.Text, flags.Ignored("calls in flight at the end are awaited and counted")),
	flags.Flag("--connections", flags.Number, flags.OneOf(flags.Code("--conn shared")+", or "+flags.Code("pool:N"),
		map[string]flags.Rule{"1": flags.On("--conn", "shared")}, flags.Changed("--conn", func(value string) string { return "pool:" + value }))),
	flags.Flag("--connect-timeout", flags.Duration, flags.Ignored(flags.ConnectTimeoutNote)),
	flags.Flag("--keepalive", flags.Duration, flags.Ignored("under load a connection is never idle")),
	flags.Flag("--lb-strategy", flags.OneOfWords("pick_first or round_robin", "pick_first round_robin"), flags.OneOf(flags.Code("--addresses first")+" or "+flags.Code("all"),
		map[string]flags.Rule{"pick_first": flags.On("--addresses", "first")}, flags.On("--addresses", "all"))),
	flags.Flag("--cpus", flags.Number, flags.Ignored(flags.ThreadsNote)),
	flags.Flag("--skipFirst", flags.Number, flags.Function("left out, unless zero: use "+flags.Code("--warm-up")+" with a duration", func(c *flags.Command, value string) error {
		if value != "0" {
			c.Note("%s %s is left out: give a duration for the warm-up instead, as in --warm-up 1s", c.Written, value)
		}
		return nil
	})),
}

var securityFlags = []flags.Option{
	flags.Flag("--insecure", flags.Maybe, flags.Kept("--insecure", "the scheme "+flags.Code("grpc://"))),
	flags.Flag("--skipTLS", flags.Maybe, flags.On("-k")),
	flags.Flag("--cname --authority", flags.Text, flags.Function(flags.Code("--host"), func(c *flags.Command, value string) error {
		if host := c.Get("--host"); host != "" && host != value {
			return c.Refuse(fmt.Sprintf("wirelab uses one name for --cname and --authority, and %s is already given: use the certificate's name for the server", flags.Excerpt(host)))
		}
		c.Set("--host", value)
		return nil
	})),
}

var reportFlags = []flags.Option{
	flags.Flag("-o --output", flags.NoneOf("a file", flags.IsFormat), flags.Kept("-o", "refused with -O: the summary goes to standard output; otherwise "+flags.Code("-o")+", a directory")),
	flags.Flag("-O --format", flags.Text, flags.Kept("-O", "json and pretty become "+flags.Code("--json")+". Other formats are refused; "+flags.Code("wirelab report")+" and "+flags.Code("wirelab export")+" write them.")),
	flags.Flag("--count-errors", flags.Maybe, flags.Ignored("failed calls are counted and timed separately")),
	flags.Flag("--name --tags", flags.Text, flags.Ignored("name the run by -o DIR")),
	flags.Flag("--debug", flags.File, flags.Ignored("with -o DIR the run records each failure")),
}

func hasSchedule(c *flags.Command, schedule string) bool {
	kind := c.Last(schedule)
	return kind != "" && kind != "const"
}

// keepForSchedule stores a value under the name of its flag.
var keepForSchedule = flags.Function("as the schedule", func(c *flags.Command, value string) error {
	c.Keep("--"+strings.TrimLeft(c.Written, "-"), value)
	return nil
})

func metadata(c *flags.Command, value string) error {
	var entries map[string]string
	if err := json.Unmarshal([]byte(value), &entries); err != nil {
		return c.Refuse("want metadata as a JSON object with text values, as in '{\"name\":\"value\"}'")
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		c.Set("-H", name+": "+entries[name])
	}
	return nil
}

func settle(c *flags.Command) error {
	c.DropCountIfTimed()
	if err := settleFormat(c); err != nil {
		return err
	}
	if limit := flags.ParseClock(c.Last("-x")); limit > 0 {
		c.Set("-z", c.Last("-x"))
		if c.Has("-n") || !c.Pasted {
			c.Note("-x %s is read as -z %s: the run ends by -z or by -n, whichever comes first", c.Last("-x"), c.Last("-x"))
		}
	}
	if err := settleSchedules(c); err != nil {
		return err
	}
	if len(c.Kept("--async")) > 0 && c.Last("--async") != "false" {
		if !c.Has("--rps") {
			return fmt.Errorf("--async of ghz: without a rate, clients wait for answers: give --rps N")
		}
		c.Note("--async is left out: with --rps no call waits for another's answer")
	}
	return settleTarget(c)
}

// settleTarget translates the address. For cleartext it adds a scheme to the target, because
// wirelab and ghz use TLS by default.
func settleTarget(c *flags.Command) error {
	if c.Has("--from") {
		return nil
	}
	if len(c.Operands) == 0 {
		if c.Pasted {
			return fmt.Errorf("the ghz command names no host: write it behind the flags, as in 127.0.0.1:50051")
		}
		return nil
	}
	if len(c.Operands) > 1 {
		return fmt.Errorf("the ghz command has more than one host: %s and %s", flags.Excerpt(c.Operands[0]), flags.Excerpt(c.Operands[1]))
	}
	if c.Pasted && !c.Has("--call") {
		return fmt.Errorf("the ghz command names no method: add --call pkg.Service/Method")
	}
	c.Operands[0] = strings.TrimPrefix(c.Operands[0], "dns:///")
	if len(c.Kept("--insecure")) == 0 || c.Last("--insecure") == "false" {
		return nil
	}
	c.Cleartext()
	if !c.Pasted {
		c.Note("--insecure means cleartext, as in ghz: the target is %s (for TLS with any certificate write -k)", c.Operands[0])
	}
	return nil
}

func settleFormat(c *flags.Command) error {
	format, output := c.Last("-O"), c.Last("-o")
	switch format {
	case "", "summary":
		if output != "" && (c.Pasted || format != "") {
			return fmt.Errorf("-o %s of ghz: the summary goes to standard output: write > %s behind the command; -o is a directory here", flags.Excerpt(output), flags.Excerpt(output))
		}
		if output != "" {
			c.Set("-o", output)
		}
		return nil
	case "json", "pretty":
		c.Set("--json")
		if !c.Pasted {
			c.Note("-O %s is read as --json", format)
		}
		if output != "" {
			return fmt.Errorf("-O %s -o %s of ghz: write --json > %s", format, flags.Excerpt(output), flags.Excerpt(output))
		}
		return nil
	}
	instead := map[string]string{"html": "run with -o DIR, then wirelab report DIR writes DIR/report.html", "csv": "run with -o DIR, then wirelab export DIR --format csv"}
	return fmt.Errorf("-O %s of ghz: %s", flags.Excerpt(format), cmp.Or(instead[format], "give --json, or --metrics :9090 to serve figures during the run"))
}

var program = generator.Program{Name: "ghz", Package: "github.com/bojand/ghz/cmd/ghz", Version: "v0.93.0"}

// Generator runs ghz as the client of a measurement.
var Generator = generator.Generator{
	Name: program.Name, Speaks: []generator.Protocol{generator.GRPC}, Build: program.Build,
	Find: func() (string, string, error) {
		path, err := program.Find()
		return path, program.String(), err
	},
	Files: files, Arguments: arguments, ReadOutput: readOutput,
}

// files writes the message's length before the message, which is ghz's form of binary data.
func files(c generator.Call) (map[string][]byte, error) {
	if bytes.Contains(c.Message, []byte("{{")) {
		return nil, errors.New("the request contains the bytes {{, which ghz takes for a template: use smaller messages, which rarely contain them")
	}
	return map[string][]byte{generator.RequestFile: protowire.AppendBytes(nil, c.Message)}, nil
}

// arguments contains no .proto file, because ghz finds the service by reflection.
func arguments(c generator.Call) []string {
	return []string{
		"-z", c.Duration.String(), "--duration-stop", "wait",
		"-c", strconv.Itoa(c.Callers), "--connections", strconv.Itoa(c.Connections),
		"--insecure", "-B", generator.RequestFile, "--call", strings.TrimPrefix(c.Path, "/"), c.Address,
	}
}

var (
	ghzCount    = pattern.Lazy(`Count:\s+(\d+)`)
	ghzTimes    = pattern.Lazy(`Slowest:\s+(\S+ \S+)\s+Fastest:\s+(\S+ \S+)\s+Average:\s+(\S+ \S+)`)
	ghzAnswered = pattern.Lazy(`\[OK\]\s+(\d+) responses`)
	ghzFailed   = pattern.Lazy(`\[(\d+)\]\s+(.+)`)
)

// readOutput reads ghz's text output. Its JSON output lists every call, which would cost CPU time.
func readOutput(output string, _ generator.Call) (generator.Counts, error) {
	count, times := ghzCount().FindStringSubmatch(output), ghzTimes().FindStringSubmatch(output)
	if count == nil || times == nil {
		return generator.Counts{}, generator.ErrIncomplete
	}
	var p generator.Parser
	counts := generator.Counts{Requests: p.Count(count[1]), Max: p.Time(times[1]), Min: p.Time(times[2]), Mean: p.Time(times[3])}
	counts.Failed = counts.Requests
	if answered := ghzAnswered().FindStringSubmatch(output); answered != nil {
		counts.Failed -= p.Count(answered[1])
	}
	if _, causes, found := strings.Cut(output, "Error distribution:"); found {
		if first := ghzFailed().FindStringSubmatch(causes); first != nil {
			counts.Example = strings.TrimSpace(first[2])
		}
	}
	return counts, p.Err
}
