// Whytruth plants causes and counts how often wirelab explain names them:
//
//	whytruth -wirelab bin/wirelab -planted tools/whytruth/planted.yaml -runs 1
//
// The planted causes are in a file of their own. It prints one line per run with the first cause of the
// explanation, and the counts: right, wrong, and unknown if the explanation names no cause.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	var t truth
	flag.StringVar(&t.wirelab, "wirelab", "bin/wirelab", "the `program` to examine")
	flag.StringVar(&t.file, "planted", "tools/whytruth/planted.yaml", "the `file` with the planted causes")
	flag.IntVar(&t.runs, "runs", 1, "number of `runs` of each cause")
	flag.StringVar(&t.only, "only", "", "plant only the causes whose `name` contains this")
	flag.StringVar(&t.window, "window", "500ms", "length of each `window`")
	flag.StringVar(&t.keep, "keep", "", "keep the runs in this `folder`; runs that are already there are only explained")
	flag.Parse()
	if err := t.measure(); err != nil {
		fmt.Fprintln(os.Stderr, "whytruth:", err)
		os.Exit(1)
	}
}

type truth struct {
	wirelab, file, only, window, keep string

	runs int
}

// A plantedCause has one or two cells, as keys of a part of a scenario. The cell b has the cause.
type plantedCause struct {
	Name       string
	Both, A, B map[string]any
	CPUs       string // the CPUs of all processes; empty means that wirelab chooses
	Right      []string
}

// An explanation is the part of wirelab explain's JSON that is judged.
type explanation struct {
	Causes []struct {
		Kind string
		End  string
	}
	Words []string
}

func (t *truth) measure() error {
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	var all []plantedCause
	if err := yaml.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	folder := t.keep
	if folder == "" {
		if folder, err = os.MkdirTemp("", "whytruth-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }()
	}
	scores := map[string]int{}
	for _, planted := range all {
		if !strings.Contains(planted.Name, t.only) {
			continue
		}
		for run := range t.runs {
			at := filepath.Join(folder, fmt.Sprintf("%s-%d", strings.ReplaceAll(planted.Name, " ", "-"), run+1))
			e, err := t.run(&planted, at)
			if err != nil {
				fmt.Fprintf(os.Stdout, "failed   %s: %v\n", planted.Name, err)
				scores["failed"]++
				continue
			}
			score := e.score(planted.Right)
			scores[score]++
			fmt.Fprintf(os.Stdout, "%-8s %s: %s, want %s\n         %s\n", score, planted.Name, e.first(), strings.Join(planted.Right, " or "), strings.Join(e.Words[:min(1, len(e.Words))], ""))
		}
	}
	for _, score := range slices.Sorted(maps.Keys(scores)) {
		fmt.Fprintf(os.Stdout, "%d %s\n", scores[score], score)
	}
	return nil
}

const noCause = "none"

func (e *explanation) first() string {
	if len(e.Causes) == 0 {
		return noCause
	}
	return strings.TrimSpace(e.Causes[0].End + " " + e.Causes[0].Kind)
}

// score compares the first cause with the right ones.
func (e *explanation) score(right []string) string {
	kind := noCause
	if len(e.Causes) > 0 {
		kind = e.Causes[0].Kind
	}
	switch {
	case slices.Contains(right, kind):
		return "right"
	case kind == noCause:
		return "unknown"
	}
	return "wrong"
}

// run measures the cells of a planted cause, unless the folder has them already, and explains them.
func (t *truth) run(planted *plantedCause, at string) (*explanation, error) {
	results := filepath.Join(at, "results")
	if _, err := os.Stat(filepath.Join(results, "manifest.json")); err != nil {
		if err := os.MkdirAll(at, 0o750); err != nil {
			return nil, err
		}
		text, err := yaml.Marshal(t.scenario(planted))
		if err != nil {
			return nil, err
		}
		file := filepath.Join(at, "planted.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		command := []string{t.wirelab, "run", file, "-o", results}
		if planted.CPUs != "" {
			command = append([]string{"taskset", "-c", planted.CPUs}, command...)
		}
		if _, err := output(command); err != nil {
			return nil, err
		}
	}
	cells, err := t.measuredCells(results)
	if err != nil {
		return nil, err
	}
	found, err := output([]string{t.wirelab, "explain", results, "--json", "--cells", strings.Join(cells, ",")})
	if err != nil {
		return nil, err
	}
	e := &explanation{}
	return e, json.Unmarshal(found, e)
}

// output runs a command and returns its output. wirelab ends with cannotTell if trials are invalid.
func output(command []string) ([]byte, error) {
	const cannotTell = 4
	found, err := exec.Command(command[0], command[1:]...).Output() //nolint:gosec // the program under test
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() != cannotTell {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, failed.Stderr)
	} else if err != nil && !is {
		return nil, err
	}
	return found, nil
}

// measuredCells returns the names of a run's cells, in the order of the scenario.
func (t *truth) measuredCells(results string) (names []string, err error) {
	found, err := output([]string{t.wirelab, "export", results, "--format", "json"})
	if err != nil {
		return nil, err
	}
	var printed struct {
		Cells []struct {
			Part, Variant, Workload string
			RequestBytes            int `json:"request_bytes"`
			ResponseBytes           int `json:"response_bytes"`
			Clients                 int
		}
	}
	if err := json.Unmarshal(found, &printed); err != nil {
		return nil, err
	}
	for _, c := range printed.Cells {
		payload := size(c.RequestBytes)
		if c.ResponseBytes != c.RequestBytes {
			payload += "-" + size(c.ResponseBytes)
		}
		names = append(names, fmt.Sprintf("%s/%s/%s/%s/c=%d", c.Part, c.Variant, c.Workload, payload, c.Clients))
	}
	return names, nil
}

// size writes a size as in the name of a cell.
func size(bytes int) string {
	switch {
	case bytes > 0 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", bytes>>20)
	case bytes > 0 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", bytes>>10)
	}
	return fmt.Sprintf("%dB", bytes)
}

// scenario returns the scenario of a planted cause. Cells that differ only in their stack take turns in one
// part. The cell a comes first.
func (t *truth) scenario(planted *plantedCause) map[string]any {
	part := func(name string, of ...map[string]any) map[string]any {
		keys := map[string]any{"name": name, "clients": []int{1}}
		for _, one := range of {
			maps.Copy(keys, one)
		}
		if stack, is := keys["stack"]; is {
			keys["stacks"] = []any{stack}
			delete(keys, "stack")
		}
		return keys
	}
	b := part("b", planted.Both, planted.B)
	parts := []any{b}
	if planted.A != nil {
		a := part("a", planted.Both, planted.A)
		if onlyStack(planted.A) && onlyStack(planted.B) {
			b["stacks"] = append(a["stacks"].([]any), b["stacks"].([]any)...)
		} else {
			parts = []any{a, b}
		}
	}
	return map[string]any{
		"version": 1, "name": "planted", "seed": 1, "parts": parts,
		"defaults": map[string]any{
			"load":    map[string]any{"model": "closed", "duration": t.window},
			"repeats": 3, "probes": []string{"life", "syscalls", "cpu"},
		},
	}
}

func onlyStack(keys map[string]any) bool {
	_, has := keys["stack"]
	return has && len(keys) == 1
}
