// Package yardstick knows the programs of others that wirelab's stacks are compared
// with: how to fetch and build them, how to make a load generator call a gRPC method, and
// how to read its output.
//
//  1. [FindClient] returns a load generator; its Find, the program and its version.
//  2. [Client.Prepare] turns a [Call] into arguments, and writes the request into a file
//     that the program reads.
//  3. The caller runs the program.
//  4. [Client.Read] reads the [Counts] from its output.
//
// The package must not know how a program is run, nor what its figures are for.
package yardstick

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Client is a load generator that can make unary gRPC calls over cleartext HTTP/2.
type Client struct {
	Name string
	// Install makes the program available, or returns why it cannot.
	Install func(ctx context.Context, progress io.Writer) error
	// Find returns the program's path, and its name with the version.
	Find func() (path, version string, err error)
	// frame returns the encoded request in the form in which the program reads it.
	frame     func(message []byte) ([]byte, error)
	arguments func(Call) []string
	read      func(output string, c Call) (Counts, error)
}

// Call is what a load generator repeats.
type Call struct {
	Address     string
	Method      string // as in /package.Service/Method
	Request     proto.Message
	AnswerBytes int // of the encoded answer
	Callers     int // each with one call in flight
	Connections int
	Duration    time.Duration
}

// Counts is what a load generator reports about its calls. The times are zero if no call
// was answered.
type Counts struct {
	Requests, Failed int64 // the failed ones are among the requests
	Example          string
	Min, Max, Mean   time.Duration
}

var ghz = Program{Name: "ghz", Package: "github.com/bojand/ghz/cmd/ghz", Version: "v0.93.0"}

// Clients lists the load generators.
var Clients = []Client{
	{
		Name: "h2load", Install: func(context.Context, io.Writer) error {
			_, _, err := findH2load()
			return err
		},
		Find: findH2load, frame: frameH2load, arguments: h2loadArguments, read: readH2load,
	},
	{
		Name: ghz.Name, Install: ghz.Build,
		Find: func() (string, string, error) {
			path, err := ghz.Find()
			return path, ghz.String(), err
		},
		frame: frameGhz, arguments: ghzArguments, read: readGhz,
	},
}

// FindClient returns the load generator of that name.
func FindClient(name string) (Client, bool) {
	i := slices.IndexFunc(Clients, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return Clients[i], true
}

// Prepare writes the request into the folder where the program will run, and returns the
// program's arguments. The last one is the server's address.
func (c Client) Prepare(call Call, folder string) ([]string, error) {
	message, err := proto.Marshal(call.Request)
	if err == nil {
		message, err = c.frame(message)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, requestFile), message, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return c.arguments(call), nil
}

// Read reads the counts from the program's output.
func (c Client) Read(output string, call Call) (Counts, error) {
	counts, err := c.read(output, call)
	if err == nil && (counts.Failed < 0 || counts.Failed > counts.Requests) {
		err = fmt.Errorf("it reports %d failed calls of %d", counts.Failed, counts.Requests)
	}
	if err != nil {
		return Counts{}, fmt.Errorf("%s: %w; it printed:\n%s", c.Name, err, output[:min(len(output), mostQuoted)])
	}
	return counts, nil
}

// mostQuoted is how many bytes of a program's output an error quotes.
const mostQuoted = 4 << 10

// requestFile is the name of the file that a program reads the request from.
const requestFile = "request"

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

func frameH2load(message []byte) ([]byte, error) {
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(prefix, message...), nil
}

func h2loadArguments(c Call) []string {
	return []string{
		"-D", strconv.FormatInt(c.Duration.Milliseconds(), 10) + "ms",
		"-c", strconv.Itoa(c.Connections), "-m", strconv.Itoa(c.Callers / c.Connections),
		"-H", "content-type: application/grpc", "-H", "te: trailers", "-d", requestFile, "http://" + c.Address + c.Method,
	}
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
	answered := min(succeeded, p.count(data[1])/int64(framePrefix+c.AnswerBytes))
	counts := Counts{
		Requests: succeeded + failed, Failed: succeeded + failed - answered,
		Min: p.time(times[1]), Max: p.time(times[2]), Mean: p.time(times[3]),
	}
	if counts.Failed > 0 {
		counts.Example = fmt.Sprintf("%d requests had no answer, and %d an answer without the message", failed, succeeded-answered)
	}
	return counts, p.err
}

// frameGhz puts the message's length before it, as ghz reads binary data.
func frameGhz(message []byte) ([]byte, error) {
	if bytes.Contains(message, []byte("{{")) {
		return nil, errors.New("the request contains the bytes {{, where ghz sees a template: use smaller messages, which seldom contain them")
	}
	return protowire.AppendBytes(nil, message), nil
}

// ghzArguments names no .proto file: ghz asks the server for the service by reflection.
func ghzArguments(c Call) []string {
	return []string{
		"-z", c.Duration.String(), "--duration-stop", "wait",
		"-c", strconv.Itoa(c.Callers), "--connections", strconv.Itoa(c.Connections),
		"--insecure", "-B", requestFile, "--call", strings.TrimPrefix(c.Method, "/"), c.Address,
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

// errIncomplete is returned for output that lacks a figure.
var errIncomplete = errors.New("its output lacks the counts or the times of its calls")

// parser parses numbers and keeps the first error.
type parser struct{ err error }

func (p *parser) count(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	p.keep(err)
	return n
}

// time parses a duration like 2.44ms or "2.44 ms".
func (p *parser) time(text string) time.Duration {
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	p.keep(err)
	return d
}

func (p *parser) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}
