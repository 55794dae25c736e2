package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
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

var (
	both = []string{"./...", "./rpc/..."} // the laboratory and the RPC libraries, modules of one workspace
	all  = []string{"./..."}              // the packages of a module apart
)

// Modules apart from the workspace.
const (
	peers  = "rpc/fastgrpc/interop" // tests fastgrpc against programs of other projects
	deploy = "deploy/check"         // tests the files of a deployment with the programs that read them
	tools  = "tools"
)

// long lists the packages that take longest. They start first: a long package that starts last
// would run alone at the end. The closing lines of each run show the slowest packages.
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

// short runs the tests of all packages with -short under the race detector. More packages run at a
// time than most machines have CPUs, since many wait. Parsers of deployments share no memory: with
// the detector they would only be compiled again.
func short(ctx context.Context, s *screen, r *results) error {
	const tested = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`
	packages, err := list(ctx, "", tested, both)
	if err != nil {
		return err
	}
	return runSuites(ctx, s, r,
		suite{options: []string{"-race", "-short", "-p=3"}, packages: longFirst(strings.Fields(packages))},
		suite{module: peers, options: []string{"-race", "-short", "-p=1"}, packages: all},
		suite{module: deploy, options: []string{"-p=1"}, packages: all},
		suite{module: tools, options: []string{"-race", "-p=1"}, packages: all},
	)
}

// full runs, without the race detector, the tests that short left out or that differ there, and
// every benchmark once. Packages that measure or start workers share the machine with others, too:
// all tests must tolerate busy neighbours, and many of these wait.
func full(ctx context.Context, s *screen, r *results) error {
	ours, err := differing(ctx, "", both)
	if err != nil {
		return err
	}
	theirs, err := differing(ctx, peers, all)
	if err != nil {
		return err
	}
	return runSuites(ctx, s, r,
		// With -bench of its own, go test would run one package after the other.
		suite{options: []string{"-p=3", ours.pattern()}, packages: longFirst(ours.packages), binary: []string{"-test.bench=.", "-test.benchtime=1x"}},
		suite{module: peers, options: []string{"-p=1", theirs.pattern()}, packages: theirs.packages},
	)
}

// runSuites runs the first suite, and the others beside it one after another: they have
// one package at a time, which keeps a CPU busy while packages of the first wait.
func runSuites(ctx context.Context, s *screen, r *results, first suite, others ...suite) error {
	var beside error
	var running sync.WaitGroup
	running.Go(func() {
		for _, one := range others {
			beside = cmp.Or(beside, one.run(ctx, s, r))
		}
	})
	err := first.run(ctx, s, r)
	running.Wait()
	return cmp.Or(err, beside)
}

// arguments returns the arguments of go. A pattern in tests names the only tests to run.
func (u suite) arguments(packages []string, tests ...string) []string {
	arguments := slices.Concat([]string{"test", "-json"}, common, u.options, tests, packages)
	if u.module != "" {
		arguments = append([]string{"-C", u.module}, arguments...)
	}
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
		repeated := newResults()
		_, err := goTest(ctx, s, repeated, u.arguments([]string{f.pkg}, fmt.Sprintf("-count=%d", repeats), "-run=^"+top+"$")...)
		if err != nil || repeated.passed < repeats {
			return fmt.Errorf("go test: %s %s did not pass %d times when repeated", f.pkg, f.test, repeats)
		}
		r.flaked(f)
	}
	return nil
}

// repeats is the number of times that a failed test is run again, alone.
const repeats = 3

func longFirst(packages []string) []string {
	first := slices.DeleteFunc(slices.Clone(long), func(pkg string) bool { return !slices.Contains(packages, pkg) })
	return append(first, slices.DeleteFunc(packages, func(pkg string) bool { return slices.Contains(first, pkg) })...)
}

func list(ctx context.Context, module, format string, patterns []string) (string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, patterns...)...)
	command.Dir = module
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("list the packages: %w", err)
	}
	return string(out), nil
}
