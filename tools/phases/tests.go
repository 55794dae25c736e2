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
)

// common are the options of all test runs. The linters have run go vet already. The
// timeout ends what hangs; ten minutes, the default, were too few on a machine ten times
// too busy.
var common = []string{"test", "-json", "-vet=off", "-timeout=30m"}

// both are the laboratory and the RPC libraries, which are modules of one workspace.
var both = []string{"./...", "./rpc/..."}

// short runs the tests of all packages with -short under the race detector. More
// packages run at a time than most machines have CPUs to spare, since many wait.
func short(ctx context.Context, s *screen, results *results) error {
	return goTest(ctx, s, results, slices.Concat(common, append([]string{"-race", "-short", "-p=3"}, both...))...)
}

// full runs what short left out, with every benchmark once, and without the race
// detector. Packages that measure or start workers share the machine with others too:
// all tests must bear busy neighbours, and many of these wait.
func full(ctx context.Context, s *screen, results *results) error {
	packages, err := differing(ctx, both)
	if err != nil {
		return err
	}
	// Told of benchmarks itself, go test would run one package after the other.
	arguments := slices.Concat(common, []string{"-p=3"}, packages, []string{"-args", "-test.bench=.", "-test.benchtime=1x"})
	if err := goTest(ctx, s, results, arguments...); err != nil {
		return err
	}
	return goTest(ctx, s, results, slices.Concat([]string{"-C", peers}, common, []string{"./..."})...)
}

// peers is the module in which fastgrpc meets the programs of others.
const peers = "rpc/fastgrpc/interop"

// deploy is the module in which the files of a deployment meet those who read them.
const deploy = "deploy/check"

// difference is what makes a package's tests do something else without -short and the
// race detector: what is left out, what counts allocations or asks for the detector, and
// benchmarks.
var difference = regexp.MustCompile(`testing\.(Short|AllocsPerRun)\(|(?m:^//go:build !?race$)|(?m:^func Benchmark)`)

// differing returns all packages of the modules whose tests differ, or
// those of a suite that they import.
func differing(ctx context.Context, modules []string) ([]string, error) {
	const format = `{{.ImportPath}}	{{.Dir}}	{{len .TestGoFiles}}{{len .XTestGoFiles}}	{{join .TestImports " "}} {{join .XTestImports " "}}`
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, modules...)...)
	command.Stderr = os.Stderr
	listed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	differ, suites := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(listed)) {
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
	for line := range strings.Lines(string(listed)) {
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
