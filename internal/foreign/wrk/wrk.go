// Package wrk reads commands of wg/wrk and giltene/wrk2. It also runs wrk as the client of a
// measurement.
package wrk

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/generator"
)

// Tool holds the flags of wg/wrk 4.2, and the additional flags of giltene/wrk2.
var Tool = &flags.Tool{
	Name:    "wrk",
	Letters: true,
	Options: []flags.Option{
		flags.Flag("-t --threads", flags.Number, flags.Ignored(flags.ThreadsNote)),
		flags.Flag("-c --connections", flags.Number, flags.To("-c")),
		flags.Flag("-d --duration", flags.Duration, flags.To("-z")),
		flags.Flag("-s --script", flags.File, flags.Refused("Lua scripts are not supported: write -m, -H and -d instead, and --rows for data that differs from call to call")),
		flags.Flag("-H --header", flags.Header, flags.HeaderLine),
		flags.Flag("-L -U --latency --u_latency", flags.None, flags.Ignored("percentiles are always shown")),
		flags.Flag("--timeout", flags.Clock, flags.InSeconds("--timeout")),
		flags.Flag("-R --rate", flags.Rate, flags.Function(flags.Code("--rps")+" (wrk2)", flags.PositiveRate)),
		flags.Flag("-v --version", flags.None, flags.Refused("write wirelab version")),
	},
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "10")
		c.SetDefault("-z", "10s")
		c.OwnConnections()
	},
	Fits: func(c *flags.Command) bool {
		return c.Has("-z") && len(c.Operands) == 1 && !strings.HasPrefix(c.Operands[0], "grpc")
	},
	Settle: func(c *flags.Command) error { return c.OneTarget() },
}

// Generator runs wrk as the client of a measurement.
var Generator = generator.Generator{
	Name: "wrk", Speaks: []generator.Protocol{generator.HTTP1},
	Find: find, Files: files, Arguments: arguments, ReadOutput: readOutput,
}

// find finds the installed program. wrk prints its version before its usage.
func find() (path, version string, err error) {
	path, printed, err := generator.FindInstalled("wrk", "wrk")
	if err != nil {
		return "", "", err
	}
	version, _, found := strings.Cut(printed, " [")
	if !found {
		return "", "", fmt.Errorf("%s --version printed %q: want a version before ' ['", path, version)
	}
	return path, version, nil
}

const wrkScriptFile = "call.lua"

// files writes the request as Lua data without functions, so that wrk runs no Lua during calls.
func files(c generator.Call) (map[string][]byte, error) {
	var script strings.Builder
	fmt.Fprintf(&script, "wrk.method = %s\n", luaString(c.Method))
	for _, f := range c.Header {
		fmt.Fprintf(&script, "wrk.headers[%s] = %s\n", luaString(f.Name), luaString(f.Value))
	}
	fmt.Fprintf(&script, "local request = assert(io.open(%s, \"rb\"))\n", luaString(generator.RequestFile))
	script.WriteString("wrk.body = request:read(\"*a\")\nrequest:close()\n")
	script.WriteString(wrkDone)
	return map[string][]byte{wrkScriptFile: []byte(script.String()), generator.RequestFile: c.Message}, nil
}

// wrkDone is Lua code that prints exact figures in microseconds. Without answers the minimum is 0.
const wrkDone = `
function done(summary, latency)
  local e, least = summary.errors, summary.requests > 0 and latency.min or 0
  io.write(string.format("exactly: %d requests, %d bytes, errors: %d connect, %d read, %d write, %d status, us: %d min, %d max, %d in all\n",
    summary.requests, summary.bytes, e.connect, e.read, e.write, e.status, least, latency.max, summary.duration))
end
`

// luaString quotes a string for Lua. In Lua, a backslash and three digits mean one byte.
func luaString(text string) string {
	quoted := []byte{'"'}
	for _, b := range []byte(text) {
		quoted = fmt.Appendf(quoted, "\\%03d", b)
	}
	return string(append(quoted, '"'))
}

// arguments rounds the duration up, because wrk accepts only whole seconds.
func arguments(c generator.Call) []string {
	seconds := (c.Duration + time.Second - 1) / time.Second
	return []string{
		"-d", strconv.FormatInt(int64(seconds), 10) + "s", "-t", strconv.Itoa(c.EqualThreads()), "-c", strconv.Itoa(c.Connections),
		"-s", wrkScriptFile, "http://" + c.Address + c.Path,
	}
}

var wrkExactly = pattern.Lazy(`(?m)^exactly: (\d+) requests, (\d+) bytes, errors: (\d+) connect, (\d+) read, (\d+) write, (\d+) status, us: (\d+) min, (\d+) max, (\d+) in all$`)

// readOutput counts answers by their bytes too, because wrk checks only the status and ignores
// requests without an answer. It does not use wrk's mean, which includes calls that wrk did not
// make. Instead it computes the mean as if each connection always had one call in flight.
func readOutput(output string, c generator.Call) (generator.Counts, error) {
	figures := wrkExactly().FindStringSubmatch(output)
	if figures == nil {
		return generator.Counts{}, generator.ErrIncomplete
	}
	var p generator.Parser
	ended, received := p.Count(figures[1]), p.Count(figures[2])
	connect, read, write, status := p.Count(figures[3]), p.Count(figures[4]), p.Count(figures[5]), p.Count(figures[6])
	unanswered := connect + read + write
	whole := received / max(c.WireBytes, 1)
	answered := max(0, min(ended-status, whole))
	counts := generator.Counts{
		Requests: ended + unanswered, Failed: ended - answered + unanswered,
	}
	if ended > 0 {
		counts.Min, counts.Max = p.Time(figures[7]+"us"), p.Time(figures[8]+"us")
		counts.Mean = p.Time(figures[9]+"us") * time.Duration(c.Connections) / time.Duration(ended)
	}
	if counts.Failed > 0 {
		counts.Example = fmt.Sprintf("%d connections broke, %d answers had a status other than 2xx and 3xx, %d answers were incomplete", unanswered, status, max(0, ended-whole))
	}
	return counts, p.Err
}
