// Package suites runs the test suites of programs that use grpc-go: as they are, and with fastgrpc
// in grpc-go's place (package swap). It compares the outcome of each test.
//
// Both runs use a copy of grpc-go that counts its connections. The suite as it is must open some at
// both ends. The rewritten suite must open none, so each connection of its tests is fastgrpc's. The
// table names an exception.
package suites

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/rpc/fastgrpc/interop/swap"
)

// A suite holds the tests of one module.
type suite struct {
	name    string
	module  string
	version string // the version in go.mod if empty
	always  bool   // runs without make judges, too
	// also is a module whose file alsoFile is rewritten, too. The tests take servers from it.
	also, alsoFile string
	// clientConns is true if the program needs a *grpc.ClientConn, see swap.Rewriter.
	clientConns bool
	// dials says why some clients of the rewritten suite are still grpc-go's.
	dials string
	// differs names each package and test that fails only with fastgrpc, and says why.
	differs map[string]string
	// hangs names a test that does not run, as it can hang with either library, and says why.
	hangs, hangsBecause string
}

var suites = []suite{
	{name: "etcd", module: "go.etcd.io/etcd/client/v3", version: "v3.7.3"},
	{name: "go-grpc-middleware", module: "github.com/grpc-ecosystem/go-grpc-middleware/v2", version: "v2.3.4"},
	{name: "grpcurl", module: "github.com/fullstorydev/grpcurl", always: true},
	{name: "otelgrpc", module: "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"},
	{name: "grpc-gateway", module: "github.com/grpc-ecosystem/grpc-gateway/v2", version: "v2.33.0"},
	{name: "go-plugin", module: "github.com/hashicorp/go-plugin", version: "v1.8.0"},
	{
		name: "pubsub", module: "cloud.google.com/go/pubsub/v2", version: "v2.9.0", clientConns: true,
		also: "cloud.google.com/go", alsoFile: "internal/testutil/server.go",
		dials: "some tests give an address to google.golang.org/api, which dials with grpc.DialOption",
		hangs: "TestShutdown_WaitForProcessing",
		hangsBecause: "a goroutine of Receive that pauses for 2 ms before it calls messageIterator.receive " +
			"waits there for a handler that sleeps for an hour",
	},
}

func TestSuites(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compiling the suites takes a while")
	}
	grpc := filepath.Join(t.TempDir(), "grpc")
	copyGRPC(t, grpc)
	rewriter, err := swap.NewRewriter()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			if !s.always && os.Getenv("JUDGES") == "" {
				t.Skip("it takes minutes, and only make judges runs it")
			}
			s.compare(t, rewriter, grpc)
		})
	}
}

// compare runs the suite with both libraries and compares the outcomes.
func (s suite) compare(t *testing.T, rewriter *swap.Rewriter, grpc string) {
	theirs, ours := filepath.Join(t.TempDir(), "theirs"), filepath.Join(t.TempDir(), "ours")
	for _, dir := range []string{theirs, ours} {
		s.copyTo(t, dir, grpc)
	}
	rewriter.ClientConns = s.clientConns
	changed, err := rewriter.RewriteModule(ours)
	if err != nil {
		t.Fatal(err)
	}
	if s.also != "" {
		s.rewriteAlso(t, rewriter, ours)
	}
	skip := "-skip=^$"
	if s.hangs != "" {
		skip = "-skip=^" + s.hangs + "$"
		t.Logf("%s is skipped: %s", s.hangs, s.hangsBecause)
	}
	want := goTest(t, theirs, skip, "./...")
	got := goTest(t, ours, skip, "./...")
	if got.compiler != want.compiler {
		t.Errorf("the compiler's output differs. With fastgrpc:\n%s", got.compiler)
	}
	repeat(t, theirs, want, want)
	repeat(t, ours, got, want)
	s.checkConnections(t, want.connections, got.connections)
	passed := 0
	for _, name := range names(want, got) {
		_, listed := s.differs[name]
		switch {
		case want.outcomes[name] == "fail" && strings.Contains(name, " "):
			t.Logf("fails with grpc-go: %s; with fastgrpc: %s", name, got.outcomes[name])
		case want.differs(got, name) && listed:
			t.Logf("%s: %s", name, s.differs[name])
		case want.differs(got, name):
			t.Errorf("%s: %q, with grpc-go %q\n%s", name, got.outcomes[name], want.outcomes[name], got.output[name])
		case listed:
			t.Errorf("%s differs no more: take it out of the table", name)
		case want.outcomes[name] == "pass" && strings.Contains(name, " "):
			passed++
		}
	}
	for name := range s.differs {
		if want.outcomes[name] == "" {
			t.Errorf("the table has %s, but the suite does not", name)
		}
	}
	if passed == 0 {
		t.Error("no test passes with both libraries")
	}
	t.Logf("tests that pass with both libraries: %d; connections with grpc-go: %v; renamed: %s", passed, want.connections, strings.Join(changed, ", "))
}

// checkConnections checks the numbers of grpc-go's connections, by end.
func (s suite) checkConnections(t *testing.T, want, got map[string]int) {
	t.Helper()
	if want["client"] == 0 || want["server"] == 0 {
		t.Errorf("the suite connects nothing with grpc-go: %v", want)
	}
	if got["server"] > 0 || got["client"] > 0 && s.dials == "" || got["client"] >= want["client"] {
		t.Errorf("the rewritten suite opens connections with grpc-go: %v of %v", got, want)
	}
	switch {
	case s.dials == "":
	case got["client"] == 0:
		t.Error("all clients are fastgrpc's: take the reason why some are not out of the table")
	default:
		t.Logf("%d of %d clients are still grpc-go's: %s", got["client"], want["client"], s.dials)
	}
}

// attempts limits how often a test runs. Some tests fail with either library if the machine is busy.
const attempts = 4

// repeat runs the tests again that fail or have not the wanted outcome, each package by itself. It
// puts their outcomes into r.
func repeat(t *testing.T, dir string, r, want result) {
	t.Helper()
	for range attempts - 1 {
		again := map[string][]string{}
		for _, name := range names(want, r) {
			pkg, test, isTest := strings.Cut(name, " ")
			if isTest && test != afterTests && (r.outcomes[name] == "fail" || want.differs(r, name)) {
				test, _, _ = strings.Cut(test, "/")
				again[pkg] = append(again[pkg], regexp.QuoteMeta(test))
			}
		}
		for pkg, tests := range again {
			slices.Sort(tests)
			repeated := goTest(t, dir, "-run=^("+strings.Join(slices.Compact(tests), "|")+")$", pkg)
			for name, outcome := range repeated.outcomes {
				if strings.Contains(name, " ") && !strings.HasSuffix(name, afterTests) && outcome != r.outcomes[name] {
					t.Logf("%s: %q, then %q\n%s", name, r.outcomes[name], outcome, r.output[name])
					r.outcomes[name], r.output[name] = outcome, repeated.output[name]
				}
			}
		}
	}
}

// copyTo copies the module to a folder. The copy uses this repository's fastgrpc and the given copy
// of grpc-go.
func (s suite) copyTo(t *testing.T, dir, grpc string) {
	t.Helper()
	version := s.version
	if version == "" {
		version = run(t, "go", "list", "-m", "-f", "{{.Version}}", s.module)
	}
	copyModule(t, s.module+"@"+version, dir)
	modfile := filepath.Join(dir, "go.mod")
	edit := []string{
		"mod", "edit",
		"-require=google.golang.org/grpc@" + run(t, "go", "list", "-m", "-f", "{{.Version}}", "google.golang.org/grpc"),
		"-replace=google.golang.org/grpc=" + grpc,
		"-require=wirelab.dev/rpc@v0.1.0",
		"-replace=wirelab.dev/rpc=" + run(t, "go", "list", "-m", "-f", "{{.Dir}}", "wirelab.dev/rpc"),
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	decode(t, run(t, "go", "mod", "edit", "-json", modfile), &mod)
	for _, r := range mod.Replace {
		if strings.HasPrefix(r.New.Path, ".") { // a folder of the module's repository
			edit = append(edit, "-dropreplace="+r.Old.Path)
		}
	}
	run(t, "go", append(edit, modfile)...)
}

// rewriteAlso rewrites the file in a copy of the other module. The module in dir then uses the copy.
func (s suite) rewriteAlso(t *testing.T, rewriter *swap.Rewriter, dir string) {
	t.Helper()
	modfile := filepath.Join(dir, "go.mod")
	var mod struct {
		Require []struct{ Path, Version string }
	}
	decode(t, run(t, "go", "mod", "edit", "-json", modfile), &mod)
	for _, r := range mod.Require {
		if r.Path == s.also {
			also := filepath.Join(t.TempDir(), "also")
			copyModule(t, r.Path+"@"+r.Version, also)
			rewriteFile(t, rewriter, filepath.Join(also, s.alsoFile))
			run(t, "go", "mod", "edit", "-replace="+s.also+"="+also, modfile)
			run(t, "go", "mod", "edit", "-require=wirelab.dev/rpc@v0.1.0", filepath.Join(also, "go.mod"))
			return
		}
	}
	t.Fatalf("%s does not require %s", s.module, s.also)
}

func rewriteFile(t *testing.T, rewriter *swap.Rewriter, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := rewriter.RewriteSource(name, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyModule copies a module at a version to a folder. The copy is writable.
func copyModule(t *testing.T, module, dir string) {
	t.Helper()
	var found struct{ Dir string }
	decode(t, run(t, "go", "mod", "download", "-json", module), &found)
	if err := os.CopyFS(dir, os.DirFS(found.Dir)); err != nil {
		t.Fatal(err)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// TestDiffers checks which outcomes count as different.
func TestDiffers(t *testing.T) {
	theirs := result{outcomes: map[string]string{"p": "pass", "p A": "pass", "p B": "skip", "p C": "pass", "q": "pass", "q A": "pass", "r": "skip"}}
	ours := result{outcomes: map[string]string{"p": "fail", "p A": "pass", "p B": "fail", "p New": "pass", "p " + afterTests: "fail", "q": "fail", "r": "fail"}}
	var differ []string
	for _, name := range names(theirs, ours) {
		if theirs.differs(ours, name) {
			differ = append(differ, name)
		}
	}
	// The tests of q do not compile, so only the package counts. r has no tests.
	if want := []string{"p " + afterTests, "p B", "p C", "q"}; !slices.Equal(differ, want) {
		t.Errorf("%q differ, want %q", differ, want)
	}
}
