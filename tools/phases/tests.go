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

// commonOptions holds the options of all test runs. The linters have run go vet already. The
// timeout ends tests that hang; the default of ten minutes is too short on a busy machine.
var commonOptions = []string{"-vet=off", "-timeout=30m"}

// A suite is one call of go test.
type suite struct {
	module   string   // folder of the module; empty means the workspace of the laboratory and the RPC libraries
	options  []string // options of go test, in addition to commonOptions
	packages []string
	binary   []string // arguments of the test binaries
}

var (
	workspacePackages = []string{"./...", "./rpc/..."} // the laboratory and the RPC libraries, modules of one workspace
	allPackages       = []string{"./..."}              // all packages of a separate module
)

// Separate modules, which are not in the workspace.
const (
	interopModule = "rpc/fastgrpc/interop" // tests fastgrpc against programs of other projects
	rivalsModule  = "peers/rivals"         // the stacks of other Go libraries
	deployModule  = "deploy/check"         // tests the files of a deployment with the programs that read them
	toolsModule   = "tools"
)

// slowPackages lists the packages that take longest. They start first: a long package that starts
// last would run alone at the end. The closing lines of each run show the slowest packages.
var slowPackages = []string{
	"wirelab.dev/internal/run/worker",
	"wirelab.dev/cmd/wirelab",
	"wirelab.dev/internal/run/fleet",
	"wirelab.dev/internal/show/report",
	"wirelab.dev/rpc/fastgrpc",
	"wirelab.dev/internal/run/lab",
	"wirelab.dev/internal/judge/analysis",
	"wirelab.dev/rpc/creditrpc",
	"wirelab.dev/rpc/chanpool",
}

// runShort runs the tests of all packages with -short under the race detector. More packages run at
// a time than most machines have CPUs, because many packages wait. The tests of deploy run without
// the detector, because they start no goroutines, and those of rivals, because rpcx has races.
func runShort(ctx context.Context, s *screen, r *results) error {
	const tested = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`
	packages, err := goList(ctx, "", tested, workspacePackages)
	if err != nil {
		return err
	}
	return runSuites(ctx, s, r,
		suite{options: []string{"-race", "-short", "-p=3"}, packages: slowFirst(strings.Fields(packages))},
		suite{module: interopModule, options: []string{"-race", "-short", "-p=1"}, packages: allPackages},
		suite{module: rivalsModule, options: []string{"-short", "-p=1"}, packages: allPackages},
		suite{module: deployModule, options: []string{"-p=1"}, packages: allPackages},
		suite{module: toolsModule, options: []string{"-race", "-p=1"}, packages: allPackages},
	)
}

// runFull runs the tests that short left out, or that differ without the race detector, and every
// benchmark once. Packages that measure or start workers also share the machine with others,
// because all tests must pass on a busy machine.
func runFull(ctx context.Context, s *screen, r *results) error {
	ours, err := findDifferingTests(ctx, "", workspacePackages)
	if err != nil {
		return err
	}
	theirs, err := findDifferingTests(ctx, interopModule, allPackages)
	if err != nil {
		return err
	}
	return runSuites(ctx, s, r,
		// The option -bench of go test would run the packages one after another.
		suite{options: []string{"-p=3", ours.pattern()}, packages: slowFirst(ours.packages), binary: []string{"-test.bench=.", "-test.benchtime=1x"}},
		suite{module: interopModule, options: []string{"-p=1", theirs.pattern()}, packages: theirs.packages},
	)
}

// runSuites runs the first suite. At the same time it runs the other suites, one after another.
// They keep a CPU busy while packages of the first suite wait.
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

// arguments returns the arguments of go. If tests has a pattern, only matching tests run.
func (u suite) arguments(packages []string, tests ...string) []string {
	arguments := slices.Concat([]string{"test", "-json"}, commonOptions, u.options, tests, packages)
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
	if certain := slices.ContainsFunc(failures, func(f failure) bool { return f.certain }); certain || len(failures) == 0 || len(failures) > maxFlaky || ctx.Err() != nil {
		return fmt.Errorf("go test: %w", err)
	}
	for _, f := range failures {
		s.printf("== repeating %s %s alone, %d times\n", f.pkg, f.test, repeatCount)
		top, _, _ := strings.Cut(f.test, "/")
		repeated := newResults()
		_, err := goTest(ctx, s, repeated, u.arguments([]string{f.pkg}, fmt.Sprintf("-count=%d", repeatCount), "-run=^"+top+"$")...)
		if err != nil || repeated.passed < repeatCount {
			return fmt.Errorf("go test: %s %s did not pass all %d repeats", f.pkg, f.test, repeatCount)
		}
		r.markFlaky(f)
	}
	return nil
}

// repeatCount is the number of repeats of a failed test. The test runs alone then.
const repeatCount = 3

func slowFirst(packages []string) []string {
	first := slices.DeleteFunc(slices.Clone(slowPackages), func(pkg string) bool { return !slices.Contains(packages, pkg) })
	return append(first, slices.DeleteFunc(packages, func(pkg string) bool { return slices.Contains(first, pkg) })...)
}

func goList(ctx context.Context, module, format string, patterns []string) (string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, patterns...)...)
	command.Dir = module
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("list the packages: %w", err)
	}
	return string(out), nil
}
