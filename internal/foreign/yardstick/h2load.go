package yardstick

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
)

var h2load = Client{
	Name: "h2load", Speaks: []Protocol{GRPC, HTTP2, HTTP1},
	Install: func(context.Context, io.Writer) error {
		_, _, err := findH2load()
		return err
	},
	Find: findH2load, files: h2loadFiles, arguments: h2loadArguments, read: readH2load,
}

// findH2load finds the program of the system; it is part of nghttp2.
func findH2load() (path, version string, err error) {
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

// h2loadFiles puts the prefix of gRPC before its message.
func h2loadFiles(c Call) (map[string][]byte, error) {
	message := c.Message
	if c.Protocol == GRPC {
		message = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(c.Message))), c.Message...)
	}
	return map[string][]byte{requestFile: message}, nil
}

// h2loadArguments makes it POST the file, as it does whenever it is given one.
func h2loadArguments(c Call) []string {
	all := []string{
		"-D", strconv.FormatInt(c.Duration.Milliseconds(), 10) + "ms", "-t", strconv.Itoa(c.threads()),
		"-c", strconv.Itoa(c.Connections), "-m", strconv.Itoa(c.Callers / c.Connections),
	}
	if c.Protocol == HTTP1 {
		all = append(all, "--h1")
	}
	header := c.Header
	if c.Protocol == GRPC {
		header = append([]Field{{"content-type", "application/grpc"}, {"te", "trailers"}}, header...)
	}
	for _, f := range header {
		all = append(all, "-H", strings.ToLower(f.Name)+": "+f.Value)
	}
	return append(all, "-d", requestFile, "http://"+c.Address+c.Path)
}

var (
	h2loadRequests = regexp.MustCompile(`(\d+) succeeded, (\d+) failed`)
	h2loadData     = regexp.MustCompile(`\((\d+)\) data`)
	h2loadTimes    = regexp.MustCompile(`time for request:\s+(\S+)\s+(\S+)\s+(\S+)`)
)

// readH2load counts answers by their bytes: h2load does not know gRPC statuses, and counts
// a failed call, which has no message, as a success.
func readH2load(output string, c Call) (Counts, error) {
	requests, data, times := h2loadRequests.FindStringSubmatch(output), h2loadData.FindStringSubmatch(output), h2loadTimes.FindStringSubmatch(output)
	if requests == nil || data == nil || times == nil {
		return Counts{}, errIncomplete
	}
	var p parser
	succeeded, failed := p.count(requests[1]), p.count(requests[2])
	answered := min(succeeded, p.count(data[1])/max(c.bodyBytes(), 1))
	counts := Counts{
		Requests: succeeded + failed, Failed: succeeded + failed - answered,
		Min: p.time(times[1]), Max: p.time(times[2]), Mean: p.time(times[3]),
	}
	if counts.Failed > 0 {
		counts.Example = fmt.Sprintf("%d requests had no answer, and %d an answer without what belongs in it", failed, succeeded-answered)
	}
	return counts, p.err
}

// bodyBytes is the size of an answer's body, with the prefix of gRPC.
func (c Call) bodyBytes() int64 {
	if c.Protocol == GRPC {
		return framePrefix + c.AnswerBytes
	}
	return c.AnswerBytes
}
