package yardstick

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

var ghzProgram = Program{Name: "ghz", Package: "github.com/bojand/ghz/cmd/ghz", Version: "v0.93.0"}

var ghz = Client{
	Name: ghzProgram.Name, Speaks: []Protocol{GRPC}, Install: ghzProgram.Build,
	Find: func() (string, string, error) {
		path, err := ghzProgram.Find()
		return path, ghzProgram.String(), err
	},
	files: ghzFiles, arguments: ghzArguments, read: readGhz,
}

// ghzFiles puts the message's length before it, as ghz reads binary data.
func ghzFiles(c Call) (map[string][]byte, error) {
	if bytes.Contains(c.Message, []byte("{{")) {
		return nil, errors.New("the request contains the bytes {{, where ghz sees a template: use smaller messages, which seldom contain them")
	}
	return map[string][]byte{requestFile: protowire.AppendBytes(nil, c.Message)}, nil
}

// ghzArguments names no .proto file: ghz asks the server for the service by reflection.
func ghzArguments(c Call) []string {
	return []string{
		"-z", c.Duration.String(), "--duration-stop", "wait",
		"-c", strconv.Itoa(c.Callers), "--connections", strconv.Itoa(c.Connections),
		"--insecure", "-B", requestFile, "--call", strings.TrimPrefix(c.Path, "/"), c.Address,
	}
}

var (
	ghzCount    = regexp.MustCompile(`Count:\s+(\d+)`)
	ghzTimes    = regexp.MustCompile(`Slowest:\s+(\S+ \S+)\s+Fastest:\s+(\S+ \S+)\s+Average:\s+(\S+ \S+)`)
	ghzAnswered = regexp.MustCompile(`\[OK\]\s+(\d+) responses`)
	ghzFailed   = regexp.MustCompile(`\[(\d+)\]\s+(.+)`)
)

func readGhz(output string, _ Call) (Counts, error) {
	count, times := ghzCount.FindStringSubmatch(output), ghzTimes.FindStringSubmatch(output)
	if count == nil || times == nil {
		return Counts{}, errIncomplete
	}
	var p parser
	counts := Counts{Requests: p.count(count[1]), Max: p.time(times[1]), Min: p.time(times[2]), Mean: p.time(times[3])}
	counts.Failed = counts.Requests
	if answered := ghzAnswered.FindStringSubmatch(output); answered != nil {
		counts.Failed -= p.count(answered[1])
	}
	if _, causes, found := strings.Cut(output, "Error distribution:"); found {
		if first := ghzFailed.FindStringSubmatch(causes); first != nil {
			counts.Example = strings.TrimSpace(first[2])
		}
	}
	return counts, p.err
}
