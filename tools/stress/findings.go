package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// failure is a test that failed at least once.
type failure struct {
	pkg, test string
	lines     []string // the first of its output
	log       string
	in        []count
}

// A count holds how many of the runs in a combination failed.
type count struct {
	combination
	failed, runs int
}

// findings is all that failed.
type findings struct {
	runs     int
	failures []*failure
}

func (f *findings) add(one failure, c combination) {
	i := slices.IndexFunc(f.failures, func(known *failure) bool { return known.pkg == one.pkg && known.test == one.test })
	if i < 0 {
		i = len(f.failures)
		f.failures = append(f.failures, &one)
	}
	known := f.failures[i]
	if last := len(known.in) - 1; last >= 0 && known.in[last].combination == c {
		known.in[last].failed++
		return
	}
	known.in = append(known.in, count{combination: c, failed: 1})
}

// ran sets how many runs a package had in a combination.
func (f *findings) ran(pkg string, c combination, runs int) {
	for _, known := range f.failures {
		if last := len(known.in) - 1; known.pkg == pkg && known.in[last].combination == c {
			known.in[last].runs = runs
		}
	}
}

func (f *findings) print(out io.Writer) {
	for _, one := range f.failures {
		_, _ = fmt.Fprintf(out, "\n%s %s\n", one.pkg, one.test)
		for _, c := range one.in {
			_, _ = fmt.Fprintf(out, "  failed in %d of %d runs: %v\n", c.failed, c.runs, c.combination)
		}
		for _, line := range one.lines {
			_, _ = fmt.Fprintf(out, "  | %s\n", line)
		}
		_, _ = fmt.Fprintf(out, "  all of it: %s\n", one.log)
	}
	_, _ = fmt.Fprintf(out, "\ntests that failed: %d\n", len(f.failures))
}

var (
	failLine = regexp.MustCompile(`^\s*--- FAIL: (\S+) \(`)
	// stillRunning names the tests in the message of a time-out.
	stillRunning = regexp.MustCompile(`^\t\t(Test\S+|Fuzz\S+) \(\d`)
)

// mostLines limits the printed lines of a failure.
const mostLines = 4

// failedTests reads a test binary's output. Of a test and its subtests it keeps
// the subtests. A binary that died outside any test counts as one failure.
func failedTests(output string) []failure {
	var failed []failure
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i, line := range lines {
		match := failLine.FindStringSubmatch(line)
		if match == nil {
			match = stillRunning.FindStringSubmatch(line)
		}
		if match != nil {
			failed = append(failed, failure{test: match[1], lines: excerpt(lines[i+1:])})
		}
	}
	if len(failed) == 0 {
		return []failure{{test: "(the whole binary)", lines: excerpt(lines[max(0, len(lines)-mostLines):])}}
	}
	return slices.DeleteFunc(slices.Clone(failed), func(parent failure) bool {
		return slices.ContainsFunc(failed, func(f failure) bool { return strings.HasPrefix(f.test, parent.test+"/") })
	})
}

// excerpt is the first lines, to the next test's result.
func excerpt(lines []string) []string {
	if next := slices.IndexFunc(lines, failLine.MatchString); next >= 0 {
		lines = lines[:next]
	}
	var some []string
	for _, line := range lines[:min(mostLines, len(lines))] {
		some = append(some, strings.TrimSpace(line))
	}
	return some
}
