package yardstick

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var wrk = Client{
	Name: "wrk", Speaks: []Protocol{HTTP1},
	Install: func(context.Context, io.Writer) error {
		_, _, err := findWrk()
		return err
	},
	Find: findWrk, files: wrkFiles, arguments: wrkArguments, read: readWrk,
}

// findWrk finds the program of the system. It prints its version before its usage, and then
// fails.
func findWrk() (path, version string, err error) {
	if path, err = exec.LookPath("wrk"); err != nil {
		return "", "", fmt.Errorf("%w; Debian and Ubuntu have it in the package wrk", err)
	}
	output, err := exec.Command(path, "--version").Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return "", "", fmt.Errorf("%s --version: %w", path, err)
	}
	version, _, told := strings.Cut(string(bytes.TrimSpace(output)), " [")
	if !told {
		return "", "", fmt.Errorf("%s --version printed %q: want its version, and a bracket", path, version)
	}
	return path, version, nil
}

// wrkScriptFile is the name of the file that wrk reads the call from.
const wrkScriptFile = "call.lua"

// wrkFiles describes the call in Lua. Without the functions request and response, wrk formats
// the request once, and runs no Lua while it calls.
func wrkFiles(c Call) (map[string][]byte, error) {
	var script strings.Builder
	fmt.Fprintf(&script, "wrk.method = %s\n", luaString(c.Method))
	for _, f := range c.Header {
		fmt.Fprintf(&script, "wrk.headers[%s] = %s\n", luaString(f.Name), luaString(f.Value))
	}
	fmt.Fprintf(&script, "local request = assert(io.open(%s, \"rb\"))\n", luaString(requestFile))
	script.WriteString("wrk.body = request:read(\"*a\")\nrequest:close()\n")
	script.WriteString(wrkDone)
	return map[string][]byte{wrkScriptFile: []byte(script.String()), requestFile: c.Message}, nil
}

// wrkDone prints what wrk itself rounds. Its times are in microseconds. Without an answer the
// least of them is nonsense.
const wrkDone = `
function done(summary, latency)
  local e, least = summary.errors, summary.requests > 0 and latency.min or 0
  io.write(string.format("exactly: %d requests, %d bytes, errors: %d connect, %d read, %d write, %d status, us: %d min, %d max, %d in all\n",
    summary.requests, summary.bytes, e.connect, e.read, e.write, e.status, least, latency.max, summary.duration))
end
`

// luaString writes a string of Lua, in which a backslash and three digits are any byte.
func luaString(text string) string {
	quoted := []byte{'"'}
	for _, b := range []byte(text) {
		quoted = fmt.Appendf(quoted, "\\%03d", b)
	}
	return string(append(quoted, '"'))
}

// wrkArguments rounds the duration up to seconds, which is what wrk takes.
func wrkArguments(c Call) []string {
	seconds := (c.Duration + time.Second - 1) / time.Second
	return []string{
		"-d", strconv.FormatInt(int64(seconds), 10) + "s", "-t", strconv.Itoa(c.threads()), "-c", strconv.Itoa(c.Connections),
		"-s", wrkScriptFile, "http://" + c.Address + c.Path,
	}
}

var wrkExactly = regexp.MustCompile(`(?m)^exactly: (\d+) requests, (\d+) bytes, errors: (\d+) connect, (\d+) read, (\d+) write, (\d+) status, us: (\d+) min, (\d+) max, (\d+) in all$`)

// readWrk counts answers by their bytes too: wrk looks only at the status. Requests without an
// answer are not among those that it counts. Its mean is of no use: it adds calls that it would
// have made had others been faster. That each connection always has a call in flight gives it.
func readWrk(output string, c Call) (Counts, error) {
	told := wrkExactly.FindStringSubmatch(output)
	if told == nil {
		return Counts{}, errIncomplete
	}
	var p parser
	ended, received := p.count(told[1]), p.count(told[2])
	connect, read, write, status := p.count(told[3]), p.count(told[4]), p.count(told[5]), p.count(told[6])
	unanswered := connect + read + write
	whole := received / max(c.WireBytes, 1)
	answered := max(0, min(ended-status, whole))
	counts := Counts{
		Requests: ended + unanswered, Failed: ended - answered + unanswered,
	}
	if ended > 0 {
		counts.Min, counts.Max = p.time(told[7]+"us"), p.time(told[8]+"us")
		counts.Mean = p.time(told[9]+"us") * time.Duration(c.Connections) / time.Duration(ended)
	}
	if counts.Failed > 0 {
		counts.Example = fmt.Sprintf("%d connections broke, %d answers with another status than 2xx and 3xx, too few bytes for %d answers", unanswered, status, max(0, ended-whole))
	}
	return counts, p.err
}
