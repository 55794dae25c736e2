// Package generator describes load generators of other projects. They can make the calls of a
// measurement instead of wirelab's client. The package also builds programs of other projects.
//
//  1. [List.Find] returns a generator. Its Find returns the program and its version.
//  2. [Generator.Prepare] writes the program's input files and returns its arguments.
//  3. The caller runs the program.
//  4. [Generator.Read] reads the [Counts] from its output.
//
// The package does not know how a program is run, what its figures mean, or which generators exist.
package generator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Generator is a load generator that can make calls in cleartext.
type Generator struct {
	Name string
	// Speaks lists the protocols that the load generator supports.
	Speaks []Protocol
	// Build builds the program. It is nil for programs that come with the system.
	Build func(ctx context.Context, progress io.Writer) error
	// Find returns the program's path, and its name with its version.
	Find func() (path, version string, err error)
	// Files returns the files that the program reads, by name. The last argument names the server.
	// ReadOutput reads the counts from the program's output.
	Files      func(Call) (map[string][]byte, error)
	Arguments  func(Call) []string
	ReadOutput func(output string, c Call) (Counts, error)
}

// A Protocol names a protocol that a load generator speaks.
type Protocol string

// The protocols. gRPC calls are unary.
const (
	HTTP1 Protocol = "HTTP/1.1"
	HTTP2 Protocol = "HTTP/2"
	GRPC  Protocol = "gRPC"
)

// A Call describes the call that a load generator makes repeatedly.
type Call struct {
	Protocol    Protocol
	Address     string
	Method      string // HTTP method; unused for gRPC
	Path        string // such as /echo; for gRPC /package.Service/Method
	Header      []Field
	Message     []byte // HTTP body, or encoded gRPC request
	AnswerBytes int64  // size of the answer's body or message
	WireBytes   int64  // size of the whole answer; only for HTTP/1.1
	Callers     int    // number of callers, each with one call in flight
	Connections int
	Threads     int // greatest number of threads
	Duration    time.Duration
}

// A Field is a header field.
type Field struct{ Name, Value string }

// EqualThreads returns the largest allowed number of threads that divides the connections evenly.
func (c Call) EqualThreads() int {
	for n := min(c.Threads, c.Connections); n > 1; n-- {
		if c.Connections%n == 0 {
			return n
		}
	}
	return 1
}

// Counts holds the figures that a load generator reports. Times are zero without answered calls.
type Counts struct {
	Requests, Failed int64 // Requests includes the failed calls
	Example          string
	Min, Max, Mean   time.Duration
}

// List lists load generators.
type List []Generator

// Find returns the load generator with this name.
func (all List) Find(name string) (Generator, bool) {
	i := slices.IndexFunc(all, func(g Generator) bool { return g.Name == name })
	if i < 0 {
		return Generator{}, false
	}
	return all[i], true
}

// Install builds the program if necessary, or returns an error with the reason.
func (g Generator) Install(ctx context.Context, progress io.Writer) error {
	if g.Build != nil {
		return g.Build(ctx, progress)
	}
	_, _, err := g.Find()
	return err
}

// Prepare writes the program's input files into its folder, and returns its arguments.
func (g Generator) Prepare(call Call, folder string) ([]string, error) {
	if !slices.Contains(g.Speaks, call.Protocol) {
		return nil, fmt.Errorf("%s does not speak %s: want one of %v", g.Name, call.Protocol, g.Speaks)
	}
	files, err := g.Files(call)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
	}
	return g.Arguments(call), nil
}

// Read reads the counts from the program's output.
func (g Generator) Read(output string, call Call) (Counts, error) {
	counts, err := g.ReadOutput(output, call)
	if err == nil && (counts.Failed < 0 || counts.Failed > counts.Requests) {
		err = fmt.Errorf("the output reports %d failed calls of %d", counts.Failed, counts.Requests)
	}
	if err != nil {
		const maxQuoted = 4 << 10 // bytes
		return Counts{}, fmt.Errorf("%s: %w; the program printed:\n%s", g.Name, err, output[:min(len(output), maxQuoted)])
	}
	return counts, nil
}

// RequestFile is the name of the file from which a program reads the request.
const RequestFile = "request"

// ErrIncomplete means that the program's output lacks a figure.
var ErrIncomplete = errors.New("the output lacks the number of calls or their times")

// A Parser parses numbers and keeps the first error.
type Parser struct{ Err error }

// Count parses a whole number.
func (p *Parser) Count(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	p.keep(err)
	return n
}

// Time parses a duration such as 2.44ms or "2.44 ms".
func (p *Parser) Time(text string) time.Duration {
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	p.keep(err)
	return d
}

func (p *Parser) keep(err error) {
	if p.Err == nil {
		p.Err = err
	}
}

// A Program is a program that `go install` builds in a fixed version. The Go module proxy and its
// checksum database guarantee that all runs use the same code.
type Program struct {
	Name    string
	Package string // package to build, such as example.org/program/cmd/program
	Version string
}

// String returns the name and the version.
func (p Program) String() string { return p.Name + " " + p.Version }

// path returns the path of the built program. All runs of a user share the program.
func (p Program) path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder for %s: %w", p.Name, err)
	}
	return filepath.Join(cache, "wirelab", p.Name+"-"+p.Version, p.Name), nil
}

// Find returns the path of the program that Build built.
func (p Program) Find() (string, error) {
	path, err := p.path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built yet: run `wirelab run fast-grpc --yardstick %s`, which fetches and builds it: %w", p, p.Name, err)
	}
	return path, nil
}

// Build downloads and builds the program with `go install` unless the program exists.
func (p Program) Build(ctx context.Context, progress io.Writer) error {
	path, err := p.path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	golang, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%s: building the program needs the go command: install Go: %w", p.Name, err)
	}
	// Build in another folder and rename the result, so that the program is never incomplete.
	folder := filepath.Dir(path)
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	beside, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	defer func() { _ = os.RemoveAll(beside) }()
	fmt.Fprintf(progress, "%s: fetching and building it into %s, which takes some minutes\n", p, folder)
	if err := p.install(ctx, golang, beside, progress); err != nil {
		return fmt.Errorf("%s could not be built: %w", p, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return os.Rename(filepath.Join(beside, p.Name), path)
}

// install runs `go install`, which prints one line per loaded module and compiled package.
func (p Program) install(ctx context.Context, golang, into string, progress io.Writer) error {
	command := exec.CommandContext(ctx, golang, "install", "-v", p.Package+"@"+p.Version)
	command.Dir = into // a folder outside any module
	command.Env = append(os.Environ(), "GOBIN="+into, "GOFLAGS=-mod=mod", "GOWORK=off")
	lines, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	var last []string // last lines of the output, for the error
	downloaded, compiled, printed := 0, 0, time.Now()
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			downloaded++
		case strings.ContainsAny(line, " :"):
			last = append(last, line)
			last = last[max(0, len(last)-3):]
		default:
			compiled++
		}
		if time.Since(printed) > 5*time.Second {
			printed = time.Now()
			fmt.Fprintf(progress, "%s: %d modules downloaded, %d packages compiled\n", p, downloaded, compiled)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, strings.Join(last, "; "))
	}
	return nil
}

// FindInstalled returns the path of an installed program, and its output for --version. It accepts
// a failing command, because wrk prints its usage and fails.
func FindInstalled(name, debianPackage string) (path, printed string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", "", fmt.Errorf("%w; on Debian and Ubuntu install the package %s", err, debianPackage)
	}
	output, err := exec.Command(path, "--version").Output()
	if err != nil && len(output) == 0 {
		return "", "", fmt.Errorf("%s --version: %w", path, err)
	}
	return path, strings.TrimSpace(string(output)), nil
}
