package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// A failure is a test that failed at least once.
type failure struct {
	pkg, test string
	lines     []string // first lines of the test's output
	log       string
	failed    int      // failed runs in the current combination
	in        []string // one line per earlier combination in which the test failed
}

// A testFailures holds all failed tests.
type testFailures struct {
	runs     int
	failures []*failure
}

func (f *testFailures) add(one failure) {
	i := slices.IndexFunc(f.failures, func(known *failure) bool { return known.pkg == one.pkg && known.test == one.test })
	if i < 0 {
		i = len(f.failures)
		f.failures = append(f.failures, &one)
	}
	f.failures[i].failed++
}

// endCombination ends a combination of a package after this number of runs.
func (f *testFailures) endCombination(c combination, runs int) {
	for _, known := range f.failures {
		if known.failed > 0 {
			known.in = append(known.in, fmt.Sprintf("failed in %d of %d runs: %v", known.failed, runs, c))
			known.failed = 0
		}
	}
}

func (f *testFailures) print(out io.Writer) {
	for _, one := range f.failures {
		_, _ = fmt.Fprintf(out, "\n%s %s\n", one.pkg, one.test)
		for _, line := range one.in {
			_, _ = fmt.Fprintf(out, "  %s\n", line)
		}
		for _, line := range one.lines {
			_, _ = fmt.Fprintf(out, "  | %s\n", line)
		}
		_, _ = fmt.Fprintf(out, "  full output: %s\n", one.log)
	}
	_, _ = fmt.Fprintf(out, "\ntests that failed: %d\n", len(f.failures))
}

var (
	failLine = regexp.MustCompile(`^\s*--- FAIL: (\S+) \(`)
	// runningTestLine matches a test that was running at a timeout.
	runningTestLine = regexp.MustCompile(`^\t\t(Test\S+|Fuzz\S+) \(\d`)
)

// maxPrintedLines limits the printed lines of a failure.
const maxPrintedLines = 4

// failedTests reads a test binary's output. If a subtest failed, it returns the subtest without its
// test. A binary that died outside any test counts as one failure.
func failedTests(output string) []failure {
	var failed []failure
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i, line := range lines {
		match := failLine.FindStringSubmatch(line)
		if match == nil {
			match = runningTestLine.FindStringSubmatch(line)
		}
		if match != nil {
			failed = append(failed, failure{test: match[1], lines: excerpt(lines[i+1:])})
		}
	}
	if len(failed) == 0 {
		return []failure{{test: "(the whole binary)", lines: excerpt(lines[max(0, len(lines)-maxPrintedLines):])}}
	}
	return slices.DeleteFunc(slices.Clone(failed), func(parent failure) bool {
		return slices.ContainsFunc(failed, func(f failure) bool { return strings.HasPrefix(f.test, parent.test+"/") })
	})
}

// excerpt returns the first lines, up to the next test's result.
func excerpt(lines []string) []string {
	if next := slices.IndexFunc(lines, failLine.MatchString); next >= 0 {
		lines = lines[:next]
	}
	var some []string
	for _, line := range lines[:min(maxPrintedLines, len(lines))] {
		some = append(some, strings.TrimSpace(line))
	}
	return some
}
