package h2load

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"wirelab.dev/internal/foreign/generator"
)

// Generator runs h2load as the client of a measurement.
var Generator = generator.Generator{
	Name: "h2load", Speaks: []generator.Protocol{generator.GRPC, generator.HTTP2, generator.HTTP1},
	Install: func(context.Context, io.Writer) error {
		_, _, err := findProgram()
		return err
	},
	Find: findProgram, Files: files, Arguments: arguments, ReadOutput: readOutput,
}

// findProgram finds the program of the system; it is part of nghttp2.
func findProgram() (path, version string, err error) {
	if path, err = exec.LookPath("h2load"); err != nil {
		return "", "", fmt.Errorf("%w; Debian and Ubuntu have it in the package nghttp2-client", err)
	}
	output, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%s --version: %w", path, err)
	}
	return path, string(bytes.TrimSpace(output)), nil
}

// framePrefix is the size of the prefix of a gRPC message: a flag, and the length.
const framePrefix = 5

// files puts the prefix of gRPC before its message.
func files(c generator.Call) (map[string][]byte, error) {
	message := c.Message
	if c.Protocol == generator.GRPC {
		message = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(c.Message))), c.Message...)
	}
	return map[string][]byte{generator.RequestFile: message}, nil
}

// arguments makes it POST the file, as it does whenever it is given one.
func arguments(c generator.Call) []string {
	all := []string{
		"-D", strconv.FormatInt(c.Duration.Milliseconds(), 10) + "ms", "-t", strconv.Itoa(c.EqualThreads()),
		"-c", strconv.Itoa(c.Connections), "-m", strconv.Itoa(c.Callers / c.Connections),
	}
	if c.Protocol == generator.HTTP1 {
		all = append(all, "--h1")
	}
	header := c.Header
	if c.Protocol == generator.GRPC {
		header = append([]generator.Field{{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}, header...)
	}
	for _, f := range header {
		all = append(all, "-H", strings.ToLower(f.Name)+": "+f.Value)
	}
	return append(all, "-d", generator.RequestFile, "http://"+c.Address+c.Path)
}

var (
	h2loadRequests = regexp.MustCompile(`(\d+) succeeded, (\d+) failed`)
	h2loadData     = regexp.MustCompile(`\((\d+)\) data`)
	h2loadTimes    = regexp.MustCompile(`time for request:\s+(\S+)\s+(\S+)\s+(\S+)`)
)

// readOutput counts answers by their bytes: h2load does not know gRPC statuses, and counts
// a failed call, which has no message, as a success.
func readOutput(output string, c generator.Call) (generator.Counts, error) {
	requests, data, times := h2loadRequests.FindStringSubmatch(output), h2loadData.FindStringSubmatch(output), h2loadTimes.FindStringSubmatch(output)
	if requests == nil || data == nil || times == nil {
		return generator.Counts{}, generator.ErrIncomplete
	}
	var p generator.Parser
	succeeded, failed := p.Count(requests[1]), p.Count(requests[2])
	answered := min(succeeded, p.Count(data[1])/max(bodyBytes(c), 1))
	counts := generator.Counts{
		Requests: succeeded + failed, Failed: succeeded + failed - answered,
		Min: p.Time(times[1]), Max: p.Time(times[2]), Mean: p.Time(times[3]),
	}
	if counts.Failed > 0 {
		counts.Example = fmt.Sprintf("%d requests had no answer, and %d an answer without what belongs in it", failed, succeeded-answered)
	}
	return counts, p.Err
}

// bodyBytes returns the size of an answer's body, with the prefix of gRPC.
func bodyBytes(c generator.Call) int64 {
	if c.Protocol == generator.GRPC {
		return framePrefix + c.AnswerBytes
	}
	return c.AnswerBytes
}
