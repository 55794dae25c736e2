// Package yardstick knows the programs of others that wirelab's stacks are compared
// with: how to fetch and build them, how to make a load generator repeat a call, and how to
// read its output.
//
//  1. [FindClient] returns a load generator; its Find, the program and its version.
//  2. [Client.Prepare] turns a [Call] into arguments, and writes what the program reads into
//     files.
//  3. The caller runs the program.
//  4. [Client.Read] reads the [Counts] from its output.
//
// The package must not know how a program is run, nor what its figures are for.
package yardstick

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client is a load generator that can repeat a call in cleartext.
type Client struct {
	Name string
	// Speaks lists the protocols in which it can call.
	Speaks []Protocol
	// Install makes the program available, or returns why it cannot.
	Install func(ctx context.Context, progress io.Writer) error
	// Find returns the program's path, and its name with the version.
	Find func() (path, version string, err error)
	// files returns what the program reads, by name.
	files     func(Call) (map[string][]byte, error)
	arguments func(Call) []string
	read      func(output string, c Call) (Counts, error)
}

// Protocol is what a load generator speaks.
type Protocol string

// The protocols. A call of gRPC is unary.
const (
	HTTP1 Protocol = "HTTP/1.1"
	HTTP2 Protocol = "HTTP/2"
	GRPC  Protocol = "gRPC"
)

// Call is what a load generator repeats.
type Call struct {
	Protocol Protocol
	Address  string
	Method   string // of HTTP; gRPC ignores it
	Path     string // as in /echo, of gRPC /package.Service/Method
	Header   []Field
	Message  []byte // the body of HTTP, the encoded request of gRPC
	// AnswerBytes is the size of the answer's body, or encoded message. WireBytes is the
	// size of the whole answer of HTTP/1.1, its head included.
	AnswerBytes, WireBytes int64
	Callers                int // each with one call in flight
	Connections            int
	Threads                int // that it may have at most
	Duration               time.Duration
}

// Field is a field of a header.
type Field struct{ Name, Value string }

// threads is how many threads a program gets that divides its connections among them: the
// most that get equally many.
func (c Call) threads() int {
	for n := min(c.Threads, c.Connections); n > 1; n-- {
		if c.Connections%n == 0 {
			return n
		}
	}
	return 1
}

// Counts is what a load generator reports about its calls. The times are zero if no call
// was answered.
type Counts struct {
	Requests, Failed int64 // the failed ones are among the requests
	Example          string
	Min, Max, Mean   time.Duration
}

// Clients lists the load generators.
var Clients = []Client{h2load, ghz, wrk}

// FindClient returns the load generator of that name.
func FindClient(name string) (Client, bool) {
	i := slices.IndexFunc(Clients, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return Clients[i], true
}

// Prepare writes what the program reads into the folder where it will run, and returns its
// arguments. The last one names the server.
func (c Client) Prepare(call Call, folder string) ([]string, error) {
	if !slices.Contains(c.Speaks, call.Protocol) {
		return nil, fmt.Errorf("%s does not speak %s: want one of %v", c.Name, call.Protocol, c.Speaks)
	}
	files, err := c.files(call)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
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
