package ghz

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"wirelab.dev/internal/foreign/generator"
)

var program = generator.Program{Name: "ghz", Package: "github.com/bojand/ghz/cmd/ghz", Version: "v0.93.0"}

// Generator runs ghz as the client of a measurement.
var Generator = generator.Generator{
	Name: program.Name, Speaks: []generator.Protocol{generator.GRPC}, Install: program.Build,
	Find: func() (string, string, error) {
		path, err := program.Find()
		return path, program.String(), err
	},
	Files: files, Arguments: arguments, ReadOutput: readOutput,
}

// files puts the message's length before it, as ghz reads binary data.
func files(c generator.Call) (map[string][]byte, error) {
	if bytes.Contains(c.Message, []byte("{{")) {
		return nil, errors.New("the request contains the bytes {{, where ghz sees a template: use smaller messages, which seldom contain them")
	}
	return map[string][]byte{generator.RequestFile: protowire.AppendBytes(nil, c.Message)}, nil
}

// arguments names no .proto file: ghz asks the server for the service by reflection.
func arguments(c generator.Call) []string {
	return []string{
		"-z", c.Duration.String(), "--duration-stop", "wait",
		"-c", strconv.Itoa(c.Callers), "--connections", strconv.Itoa(c.Connections),
		"--insecure", "-B", generator.RequestFile, "--call", strings.TrimPrefix(c.Path, "/"), c.Address,
	}
}

var (
	ghzCount    = regexp.MustCompile(`Count:\s+(\d+)`)
	ghzTimes    = regexp.MustCompile(`Slowest:\s+(\S+ \S+)\s+Fastest:\s+(\S+ \S+)\s+Average:\s+(\S+ \S+)`)
	ghzAnswered = regexp.MustCompile(`\[OK\]\s+(\d+) responses`)
	ghzFailed   = regexp.MustCompile(`\[(\d+)\]\s+(.+)`)
)

// readOutput reads ghz's text. Its JSON would list each call, and writing that list would count
// as the client's cost.
func readOutput(output string, _ generator.Call) (generator.Counts, error) {
	count, times := ghzCount.FindStringSubmatch(output), ghzTimes.FindStringSubmatch(output)
	if count == nil || times == nil {
		return generator.Counts{}, generator.ErrIncomplete
	}
	var p generator.Parser
	counts := generator.Counts{Requests: p.Count(count[1]), Max: p.Time(times[1]), Min: p.Time(times[2]), Mean: p.Time(times[3])}
	counts.Failed = counts.Requests
	if answered := ghzAnswered.FindStringSubmatch(output); answered != nil {
		counts.Failed -= p.Count(answered[1])
	}
	if _, causes, found := strings.Cut(output, "Error distribution:"); found {
		if first := ghzFailed.FindStringSubmatch(causes); first != nil {
			counts.Example = strings.TrimSpace(first[2])
		}
	}
	return counts, p.Err
}
