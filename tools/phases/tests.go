package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// common are the options of all test runs. The linters have run go vet already. The
// timeout ends tests that hang. Ten minutes, the default, were too few on a machine ten
// times too busy.
var common = []string{"-vet=off", "-timeout=30m"}

// A suite is one call of go test.
type suite struct {
	module   string   // folder; empty: the workspace of the laboratory and the RPC libraries
	options  []string // besides common
	packages []string
	binary   []string // arguments of the test binaries
}

// both are the laboratory and the RPC libraries, which are modules of one workspace.
var both = []string{"./...", "./rpc/..."}

// all are the packages of a module apart.
var all = []string{"./..."}

// Modules apart from the workspace.
const (
	peers  = "rpc/fastgrpc/interop" // fastgrpc meets the programs of others
	deploy = "deploy/check"         // the files of a deployment meet their readers
	tools  = "tools"
)

// long are the packages that take longest, which start first: one that starts last
// would run alone at the end. The closing lines of each run show them.
var long = []string{
	"wirelab.dev/internal/run/worker",
	"wirelab.dev/cmd/wirelab",
	"wirelab.dev/internal/run/fleet",
	"wirelab.dev/internal/show/report",
	"wirelab.dev/rpc/fastgrpc",
	"wirelab.dev/internal/run/lab",
	"wirelab.dev/internal/judge/analysis",
	"wirelab.dev/rpc/creditrpc",
}

// short runs the tests of all packages with -short under the race detector. More
// packages run at a time than most machines have CPUs, since many wait. Parsers of
// deployments share nothing: the detector would only have all of them compiled again.
func short(ctx context.Context, s *screen, r *results) error {
	packages, err := listed(ctx)
	if err != nil {
		return err
	}
	return runSuites(ctx, s, r,
		suite{options: []string{"-race", "-short", "-p=3"}, packages: packages},
		suite{module: peers, options: []string{"-race", "-short", "-p=1"}, packages: all},
		suite{module: deploy, options: []string{"-p=1"}, packages: all},
		suite{module: tools, options: []string{"-race", "-p=1"}, packages: all},
	)
}

// full runs what short left out, with every benchmark once, and without the race
// detector. Packages that measure or start workers share the machine with others too:
// all tests must bear busy neighbours, and many of these wait.
func full(ctx context.Context, s *screen, r *results) error {
	packages, err := differing(ctx, both)
	if err != nil {
		return err
	}
	return runSuites(ctx, s, r,
		// With -bench of its own, go test would run one package after the other.
		suite{options: []string{"-p=3"}, packages: longFirst(packages), binary: []string{"-test.bench=.", "-test.benchtime=1x"}},
		suite{module: peers, options: []string{"-p=1"}, packages: all},
	)
}

// runSuites runs the first suite, and the others beside it one after another: they have
// one package at a time, which keeps a CPU busy while packages of the first wait.
func runSuites(ctx context.Context, s *screen, r *results, first suite, others ...suite) error {
	var beside error
	var running sync.WaitGroup
	running.Go(func() {
		for _, one := range others {
			if err := one.run(ctx, s, r); err != nil && beside == nil {
				beside = err
			}
		}
	})
	err := first.run(ctx, s, r)
	running.Wait()
	if err != nil {
		return err
	}
	return beside
}

// arguments of go; tests, if not empty, is a pattern of the only tests to run.
func (u suite) arguments(packages []string, tests ...string) []string {
	arguments := []string{"test", "-json"}
	if u.module != "" {
		arguments = append([]string{"-C", u.module}, arguments...)
	}
	arguments = slices.Concat(arguments, common, u.options, tests, packages)
	if len(u.binary) > 0 && len(tests) == 0 {
		arguments = slices.Concat(arguments, []string{"-args"}, u.binary)
	}
	return arguments
}

// run runs the suite, and repeats each test that failed. It returns an error if the suite
// failed for another reason than a few tests that pass when they are repeated.
func (u suite) run(ctx context.Context, s *screen, r *results) error {
	failures, err := goTest(ctx, s, r, u.arguments(u.packages)...)
	if err == nil {
		return nil
	}
	if certain := slices.ContainsFunc(failures, func(f failure) bool { return f.certain }); certain || len(failures) == 0 || len(failures) > mostFlaky || ctx.Err() != nil {
		return fmt.Errorf("go test: %w", err)
	}
	for _, f := range failures {
		s.printf("== repeating %s %s alone, %d times\n", f.pkg, f.test, repeats)
		top, _, _ := strings.Cut(f.test, "/")
		var repeated results
		_, err := goTest(ctx, s, &repeated, u.arguments([]string{f.pkg}, fmt.Sprintf("-count=%d", repeats), "-run=^"+top+"$")...)
		if err != nil || repeated.passed < repeats {
			return fmt.Errorf("go test: %s %s did not pass %d times when repeated", f.pkg, f.test, repeats)
		}
		r.flaked(f)
	}
	return nil
}

// repeats counts the runs of a test that failed, alone.
const repeats = 3

// difference matches what makes a package's tests behave differently without -short and the
// race detector: skipped tests, counted allocations, build tags for the detector, and
// benchmarks.
var difference = regexp.MustCompile(`testing\.(Short|AllocsPerRun)\(|(?m:^//go:build !?race$)|(?m:^func Benchmark)`)

// listed returns the packages of both modules that have tests, the long ones first.
func listed(ctx context.Context) ([]string, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`
	out, err := list(ctx, format, both)
	return longFirst(strings.Fields(out)), err
}

func longFirst(packages []string) []string {
	first := slices.DeleteFunc(slices.Clone(long), func(pkg string) bool { return !slices.Contains(packages, pkg) })
	return append(first, slices.DeleteFunc(packages, func(pkg string) bool { return slices.Contains(first, pkg) })...)
}

func list(ctx context.Context, format string, patterns []string) (string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, patterns...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("list the packages: %w", err)
	}
	return string(out), nil
}

// differing returns all packages of the modules whose tests differ, or import a suite whose
// tests differ.
func differing(ctx context.Context, modules []string) ([]string, error) {
	const format = `{{.ImportPath}}	{{.Dir}}	{{len .TestGoFiles}}{{len .XTestGoFiles}}	{{join .TestImports " "}} {{join .XTestImports " "}}`
	out, err := list(ctx, format, modules)
	if err != nil {
		return nil, err
	}
	differ, suites := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(out) {
		fields := strings.Split(line, "\t")
		files, err := filepath.Glob(filepath.Join(fields[1], "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if difference.Match(text) {
				differ[fields[0]] = true
				suites[fields[0]] = suites[fields[0]] || !strings.HasSuffix(file, "_test.go")
			}
		}
	}
	var packages []string
	for line := range strings.Lines(out) {
		fields := strings.Split(line, "\t")
		if fields[2] == "00" {
			continue
		}
		if differ[fields[0]] || slices.ContainsFunc(strings.Fields(fields[3]), func(imported string) bool { return suites[imported] }) {
			packages = append(packages, fields[0])
		}
	}
	return packages, nil
}
