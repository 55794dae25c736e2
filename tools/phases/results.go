package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// results is what all test runs came to.
type results struct {
	passed, skipped int
	failed          []string // package and test
	seconds         map[string]float64
}

// read prints what go test would without -json.
func (r *results) read(events io.Reader, s *screen) error {
	if r.seconds == nil {
		r.seconds = map[string]float64{}
	}
	type test struct{ pkg, name string }
	output, running := map[test]string{}, map[string]bool{}
	for decoder := json.NewDecoder(events); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
		of := test{e.Package, e.Test}
		switch e.Action {
		case "start":
			running[e.Package] = true
		case "output":
			output[of] += e.Output
		case "build-output":
			s.printf("%s", e.Output)
		case "pass", "skip", "fail":
			if e.Test == "" {
				delete(running, e.Package)
				r.seconds[e.Package] += e.Elapsed
			}
			text := output[of]
			delete(output, of)
			r.count(e)
			switch {
			case e.Action == "fail":
				s.printf("%s", text)
			case e.Test == "":
				s.printf("%s", lastLine(text))
			}
		}
		s.now("")
		if len(running) > 0 {
			s.now(", at " + strings.Join(slices.Sorted(maps.Keys(running)), " and "))
		}
	}
}

// count keeps a failed package's name only if none of its tests has failed.
func (r *results) count(e event) {
	switch {
	case e.Action == "fail":
		name := e.Package + " " + e.Test
		if !slices.ContainsFunc(r.failed, func(known string) bool {
			return strings.HasPrefix(known, strings.TrimSpace(name)+"/") || e.Test == "" && strings.HasPrefix(known, name)
		}) {
			r.failed = append(r.failed, name)
		}
	case e.Test == "":
	case e.Action == "pass":
		r.passed++
	case e.Action == "skip":
		r.skipped++
	}
}

// lastLine is go test's own of a package: what is above it is PASS.
func lastLine(text string) string {
	text = strings.TrimSuffix(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:] + "\n"
}

// shown is how many packages are listed as the slowest.
const shown = 10

func (r *results) print(s *screen) {
	if len(r.failed) == 0 && len(r.seconds) > 0 {
		slowest := slices.SortedFunc(maps.Keys(r.seconds), func(a, b string) int { return cmp.Compare(r.seconds[b], r.seconds[a]) })
		s.printf("\nthe slowest packages, all their runs together:\n")
		for _, pkg := range slowest[:min(shown, len(slowest))] {
			s.printf("%8.1fs  %s\n", r.seconds[pkg], pkg)
		}
	}
	if len(r.seconds) > 0 {
		s.printf("\n%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), r.skipped)
	}
	for _, name := range r.failed {
		s.printf("FAILED %s\n", name)
	}
}
