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

// common are the options of all test runs. The linters have run go vet already.
var common = []string{"test", "-json", "-vet=off"}

// short runs the tests of all packages with -short under the race detector. More
// packages run at a time than most machines have CPUs to spare, since many wait.
func short(ctx context.Context, s *screen, results *results) error {
	return goTest(ctx, s, results, slices.Concat(common, []string{"-race", "-short", "-p=3", "./..."})...)
}

// alone are the packages that measure, or start workers with priority over all
// else: those would starve tests beside them.
var alone = []string{"cmd/wirelab", "internal/host", "internal/lab", "internal/link", "internal/load", "internal/probe", "internal/worker"}

// full runs what short left out, with every benchmark once, and without the race
// detector: first the tests that share the machine, then the packages alone, one
// after another.
func full(ctx context.Context, s *screen, results *results) error {
	packages, err := list(ctx)
	if err != nil {
		return err
	}
	var together, apart []string
	for _, p := range packages {
		_, name, _ := strings.Cut(p.path, "/")
		switch {
		case slices.Contains(alone, name):
			apart = append(apart, p.path)
		case p.differs:
			together = append(together, p.path)
		}
	}
	if len(apart) != len(alone) {
		return fmt.Errorf("packages to be tested alone: found %q of %q", apart, alone)
	}
	arguments := slices.Concat(common, []string{"-timeout=20m", "-bench=.", "-benchtime=1x"})
	if err := goTest(ctx, s, results, slices.Concat(arguments, []string{"-p=2"}, together)...); err != nil {
		return err
	}
	if err := goTest(ctx, s, results, slices.Concat(arguments, []string{"-p=1"}, apart)...); err != nil {
		return err
	}
	return goTest(ctx, s, results, slices.Concat([]string{"-C", peers}, common, []string{"-timeout=20m", "./..."})...)
}

// peers is the module in which fastgrpc meets the programs of others.
const peers = "fastgrpc/interop"

// testPackage is a package with tests.
type testPackage struct {
	path string
	// differs says that its tests do not do the same with -short and under the
	// race detector.
	differs bool
}

// differing is what makes a difference: what is left out with -short, what counts
// allocations or asks for the race detector, and benchmarks.
var differing = regexp.MustCompile(`testing\.(Short|AllocsPerRun)\(|(?m:^//go:build !?race$)|(?m:^func Benchmark)`)

// list is all packages of the module in the current folder that have tests.
func list(ctx context.Context) ([]testPackage, error) {
	const format = `{{.ImportPath}}	{{.Dir}}	{{len .TestGoFiles}}{{len .XTestGoFiles}}	{{join .TestImports " "}} {{join .XTestImports " "}}`
	command := exec.CommandContext(ctx, "go", "list", "-f", format, "./...")
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
			if differing.Match(text) {
				differ[fields[0]] = true
				suites[fields[0]] = suites[fields[0]] || !strings.HasSuffix(file, "_test.go")
			}
		}
	}
	var packages []testPackage
	for line := range strings.Lines(string(listed)) {
		fields := strings.Split(line, "\t")
		if fields[2] == "00" {
			continue
		}
		differs := differ[fields[0]] || slices.ContainsFunc(strings.Fields(fields[3]), func(imported string) bool { return suites[imported] })
		packages = append(packages, testPackage{fields[0], differs})
	}
	return packages, nil
}
