package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// event is a line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// A failure is a test that failed, or a package that failed without naming one.
type failure struct {
	pkg, test string
	certain   bool // true for failures that are never repeated, such as a data race or a build error
}

// results sums up all test runs. Several may go on at the same time.
type results struct {
	mu      sync.Mutex
	passed  int
	failed  []failure
	flaky   []failure
	skipped map[string]int // number of skipped tests by reason
	seconds map[string]float64
	running map[string]bool
}

func newResults() *results {
	return &results{skipped: map[string]int{}, seconds: map[string]float64{}, running: map[string]bool{}}
}

type testID struct{ pkg, name string }

// read prints the lines that go test prints without -json, and returns the failed tests.
func (r *results) read(events io.Reader, s *screen) ([]failure, error) {
	output := map[testID]string{}
	var failures []failure
	for decoder := json.NewDecoder(events); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			r.mu.Lock()
			r.failed = append(r.failed, failures...)
			r.mu.Unlock()
			return failures, nil
		} else if err != nil {
			return failures, fmt.Errorf("read the events of go test: %w", err)
		}
		of := testID{e.Package, e.Test}
		switch e.Action {
		case "output":
			output[of] += e.Output
		case "build-output":
			s.printf("%s", e.Output)
		case "pass", "skip", "fail":
			text := output[of]
			delete(output, of)
			r.count(e, text)
			switch {
			case e.Action == "fail":
				failures = addFailure(failures, failure{pkg: e.Package, test: e.Test, certain: e.Test == "" || strings.HasPrefix(e.Test, "Benchmark") || certainFailure.MatchString(text)})
				s.printf("%s", text)
			case e.Test == "":
				s.printf("%s", lastLine(text))
			}
		}
		s.setActivity(r.updateRunning(e))
	}
}

// certainFailure matches the output of failures that are never repeated.
var certainFailure = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: )`)

// addFailure adds a failure, except if a known failure caused it: a failed subtest fails its test,
// and a failed test fails its package.
func addFailure(failures []failure, f failure) []failure {
	for i, known := range failures {
		if known.pkg == f.pkg && (f.test == "" || strings.HasPrefix(known.test, f.test+"/")) {
			failures[i].certain = known.certain || f.certain && f.test != ""
			return failures
		}
	}
	return append(failures, f)
}

func (r *results) count(e event, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Test == "":
		r.seconds[e.Package] += e.Elapsed
	case e.Action == "pass":
		r.passed++
	case e.Action == "skip":
		r.skipped[skipReason(output)]++
	}
}

// skipPlace matches the file and line before the reason of a skip.
var skipPlace = regexp.MustCompile(`(?m)^\s*\S+_test\.go:\d+: `)

// skipReason returns why a test was skipped, from its output.
func skipReason(output string) string {
	at := skipPlace.FindAllStringIndex(output, -1)
	if len(at) == 0 {
		return "no reason given"
	}
	text, _, _ := strings.Cut(output[at[len(at)-1][1]:], "\n")
	return text
}

// updateRunning notes which packages are being tested, and returns a text with their names.
func (r *results) updateRunning(e event) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Action == "start":
		r.running[e.Package] = true
	case e.Test == "" && e.Action != "output":
		delete(r.running, e.Package)
	}
	if len(r.running) == 0 {
		return ""
	}
	return ", at " + strings.Join(slices.Sorted(maps.Keys(r.running)), " and ")
}

// markFlaky moves a failure to the flaky tests, because the test passed when it was repeated.
func (r *results) markFlaky(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = slices.DeleteFunc(r.failed, func(known failure) bool { return known == f })
	r.flaky = append(r.flaky, f)
}

// maxFlaky is the largest number of flaky tests in a run that passes.
const maxFlaky = 3

// tooFlaky reports whether flaky tests fail the run.
func (r *results) tooFlaky(strict bool) bool {
	return len(r.flaky) > maxFlaky || strict && len(r.flaky) > 0
}

// lastLine returns the line that go test itself prints for a package, below PASS.
func lastLine(text string) string {
	text = strings.TrimSuffix(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:] + "\n"
}

// maxSlowest limits the list of the slowest packages.
const maxSlowest = 10

func (r *results) print(s *screen) {
	if len(r.failed) == 0 && len(r.seconds) > 0 {
		slowest := descending(r.seconds)
		s.printf("\nthe slowest packages, by the total time of their runs:\n")
		for _, pkg := range slowest[:min(maxSlowest, len(slowest))] {
			s.printf("%8.1fs  %s\n", r.seconds[pkg], pkg)
		}
	}
	skips := 0
	if len(r.skipped) > 0 {
		s.printf("\nskipped tests, by reason:\n")
		for _, why := range descending(r.skipped) {
			s.printf("%5d  %s\n", r.skipped[why], why)
			skips += r.skipped[why]
		}
	}
	if len(r.seconds) > 0 {
		s.printf("\ntests: %d passed, %d failed, %d skipped\n", r.passed, len(r.failed), skips)
	}
	for _, f := range r.failed {
		s.printf("FAILED %s %s\n", f.pkg, f.test)
	}
	r.printFlaky(s)
}

// descending returns the keys of the largest values first.
func descending[N cmp.Ordered](values map[string]N) []string {
	return slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
}

// flakyFile lists the last run's flaky tests.
const flakyFile = "bin/flaky.txt"

func (r *results) printFlaky(s *screen) {
	var lines strings.Builder
	for _, f := range r.flaky {
		s.printf("FLAKY %s %s: failed once, then passed %d times\n", f.pkg, f.test, repeatCount)
		fmt.Fprintf(&lines, "%s %s\n", f.pkg, f.test)
	}
	if r.tooFlaky(false) {
		s.printf("found %d flaky tests: want at most %d\n", len(r.flaky), maxFlaky)
	}
	if len(r.seconds) == 0 {
		return // no test ran
	}
	if lines.Len() == 0 {
		_ = os.Remove(flakyFile) // the file may be absent
		return
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(flakyFile), 0o755), os.WriteFile(flakyFile, []byte(lines.String()), 0o644)); err != nil {
		s.printf("write the list of flaky tests: %v\n", err)
	}
}
