package suites

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/rpc/fastgrpc/interop/swap"
)

// A result holds the outcomes of a run of a suite. The keys of both maps of texts are a package, or
// a package and a test with a space in between.
type result struct {
	outcomes    map[string]string // pass, fail or skip
	output      map[string]string
	compiler    string         // the compiler's output
	connections map[string]int // connections of grpc-go's transport, by end: client or server
}

// afterTests takes the place of a test's name if a package fails but none of its tests does. Some
// packages look for leaked goroutines after their tests.
const afterTests = "(after its tests)"

// port matches a port in a test's name. It differs from run to run.
var port = regexp.MustCompile(`:\d{4,5}\b`)

// names returns the packages and tests of both results, sorted.
func names(a, b result) []string {
	all := maps.Clone(a.outcomes)
	maps.Copy(all, b.outcomes)
	return slices.Sorted(maps.Keys(all))
}

// differs reports whether a package or test has another outcome in other. A package differs only if
// it has tests and none of them ran, because its other outcomes follow from its tests. A test that
// only other has differs if it fails.
func (r result) differs(other result, name string) bool {
	a, b := r.outcomes[name], other.outcomes[name]
	switch {
	case !strings.Contains(name, " "):
		return r.ran(name) && !other.ran(name)
	case a == "":
		return b == "fail"
	}
	return a != b && other.ran(name)
}

// ran reports whether a test of the package ran. The name may be the package's or a test's.
func (r result) ran(name string) bool {
	pkg, _, _ := strings.Cut(name, " ")
	for other := range r.outcomes {
		if strings.HasPrefix(other, pkg+" ") {
			return true
		}
	}
	return false
}

func (r result) hasFailedTest(pkg string) bool {
	for name, outcome := range r.outcomes {
		if outcome == "fail" && strings.HasPrefix(name, pkg+" ") {
			return true
		}
	}
	return false
}

// goTest runs go test in a folder.
func goTest(t *testing.T, dir string, args ...string) result {
	t.Helper()
	r := result{outcomes: map[string]string{}, output: map[string]string{}, connections: map[string]int{}}
	counts := filepath.Join(t.TempDir(), "connections")
	// With -trimpath the go command's cache serves all suites, although their folders differ.
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-json", "-count=1", "-vet=off", "-mod=mod", "-trimpath"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local", countVariable+"="+counts)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output() // an error if a test fails, too
	stopped := ""
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test, Output string }
		decode(t, string(line), &event)
		name := strings.TrimSpace(event.Package + " " + port.ReplaceAllString(event.Test, ":port"))
		switch event.Action {
		case "pass", "fail", "skip":
			r.outcomes[name] = event.Action
		case "output":
			r.output[name] += event.Output
			// The stacks after a time limit go with whichever test wrote last.
			if strings.HasPrefix(event.Output, "panic: test timed out") {
				stopped = event.Package
			}
			if stopped == event.Package && event.Test != "" {
				r.output[event.Package] += event.Output
			}
		case "build-output":
			r.compiler += event.Output
		}
	}
	for _, name := range slices.Collect(maps.Keys(r.outcomes)) {
		if !strings.Contains(name, " ") && r.outcomes[name] == "fail" && r.ran(name) && !r.hasFailedTest(name) {
			r.outcomes[name+" "+afterTests], r.output[name+" "+afterTests] = "fail", r.output[name]
		}
	}
	if len(r.outcomes) == 0 {
		t.Fatalf("go test in %s ran nothing: %v\n%s", dir, err, stderr.Bytes())
	}
	text, err := os.ReadFile(counts)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without connections there is no file
		t.Fatal(err)
	}
	for end := range strings.FieldsSeq(string(text)) {
		r.connections[end]++
	}
	return r
}

// countVariable names the environment variable with the path of a file. grpc-go's transport appends
// a word to it for each connection.
const countVariable = "WIRELAB_GRPC_CONNECTIONS"

// copyGRPC copies grpc-go into a folder. The copy's transport counts its connections.
func copyGRPC(t *testing.T, dir string) {
	t.Helper()
	if err := swap.CopyModule("google.golang.org/grpc", dir); err != nil {
		t.Fatal(err)
	}
	transport := filepath.Join(dir, "internal", "transport")
	for _, c := range []struct{ end, file, head string }{
		{"client", "http2_client.go", "func NewHTTP2Client("},
		{"server", "http2_server.go", "func NewServerTransport("},
		{"server", "handler_server.go", "func NewServerHandlerTransport("},
	} {
		name := filepath.Join(transport, c.file)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before, after, found := strings.Cut(string(text), "\n"+c.head)
		signature, body, complete := strings.Cut(after, "{\n")
		if !found || !complete {
			t.Fatalf("%s has no %s: adapt the test to grpc-go's version", name, c.head)
		}
		counted := fmt.Sprintf("%s\n%s%s{\n\tcountConnection(%q)\n%s", before, c.head, signature, c.end, body)
		if err := os.WriteFile(name, []byte(counted), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(transport, "count.go"), []byte(counterSource), 0o600); err != nil {
		t.Fatal(err)
	}
}

const counterSource = `package transport

import "os"

func countConnection(end string) {
	f, err := os.OpenFile(os.Getenv("` + countVariable + `"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(end + "\n"); err != nil {
		panic(err)
	}
}
`

// run runs a program and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}
