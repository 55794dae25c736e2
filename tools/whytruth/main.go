// Whytruth plants causes and counts how often wirelab explain names them:
//
//	whytruth -wirelab bin/wirelab -planted tools/whytruth/planted.yaml -runs 1
//	whytruth -wirelab bin/wirelab -planted tools/whytruth/blind.yaml -draw 10 -seed 1
//
// The planted causes are in files of their own. It prints for each run the first cause of the explanation and its
// first sentence, and the counts: right, wrong, and unknown if the explanation names no cause. With -draw, it draws
// some of the causes by lot. With -effects, it explains nothing, and prints the measured means.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
)

func main() {
	var t truth
	flag.StringVar(&t.wirelab, "wirelab", "bin/wirelab", "the `program` to examine")
	flag.StringVar(&t.file, "planted", "tools/whytruth/planted.yaml", "the `file` with the planted causes")
	flag.IntVar(&t.runs, "runs", 1, "number of `runs` of each cause")
	flag.StringVar(&t.only, "only", "", "plant only the causes whose `name` contains this")
	flag.StringVar(&t.window, "window", "500ms", "length of each `window` of wirelab's own cells")
	flag.StringVar(&t.probes, "probes", "life,cpu,syscalls", "the `probes`")
	flag.IntVar(&t.draw, "draw", 0, "plant this `number` of causes, drawn by lot (default: all)")
	flag.Uint64Var(&t.seed, "seed", 1, "the `seed` of the lot")
	flag.BoolVar(&t.effects, "effects", false, "print the measured means, and no explanation")
	flag.StringVar(&t.keep, "keep", "", "keep the runs in this `folder`; runs that are already there are only explained")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := t.measure(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "whytruth:", err)
		os.Exit(1)
	}
}

type truth struct {
	wirelab, file, only, window, probes, keep string

	runs, draw int
	seed       uint64
	effects    bool
	folder     string // of the runs
}

// A plantedCause has one or two cells, as keys of a part of a scenario, or a service. The cell b, or the second
// version of the service, has the cause.
type plantedCause struct {
	Name       string
	Fault      string // what is wrong, for a reader
	Both, A, B map[string]any
	CPUs       string // the CPUs of all processes; empty means that wirelab chooses
	Service    *service
	Right      []string // kinds of causes: one of them must be the first
	Says       []string // words: the first sentence must have one of them
	Equal      bool     // the words say that no difference is proven
}

// An explanation is the part of wirelab explain's JSON that is judged.
type explanation struct {
	Causes []struct {
		Kind string
		End  string
	}
	Measured *struct {
		A       float64 `json:"a_us"`
		B       float64 `json:"b_us"`
		Verdict string
	}
	Words []string
}

// sentence is the first sentence.
func (e *explanation) sentence() string { return strings.Join(e.Words[:min(1, len(e.Words))], "") }

func (t *truth) measure(ctx context.Context) error {
	all, err := t.read()
	if err != nil {
		return err
	}
	if t.folder = t.keep; t.folder == "" {
		// Beside the program, since temporary files may be in memory, where nothing waits for a disk.
		if t.folder, err = os.MkdirTemp(filepath.Dir(t.wirelab), "whytruth-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(t.folder) }()
	}
	if t.folder, err = filepath.Abs(t.folder); err != nil {
		return err
	}
	scores := map[string]int{}
	for _, planted := range t.lot(all) {
		for run := range t.runs {
			at := filepath.Join(t.folder, fmt.Sprintf("%s-%d", strings.ReplaceAll(planted.Name, " ", "-"), run+1))
			e, err := t.run(ctx, &planted, at)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				fmt.Fprintf(os.Stdout, "failed   %s: %v\n", planted.Name, err)
				scores["failed"]++
			case t.effects:
				fmt.Fprintf(os.Stdout, "%s: %s\n", planted.Name, e.effect())
			default:
				score := planted.score(e)
				scores[score]++
				fmt.Fprintf(os.Stdout, "%-8s %s: %s, want %s\n         %s\n", score, planted.Name, e.first(), strings.Join(append(planted.Right, planted.Says...), " or "), e.sentence())
			}
		}
	}
	for _, score := range slices.Sorted(maps.Keys(scores)) {
		fmt.Fprintf(os.Stdout, "%d %s\n", scores[score], score)
	}
	return nil
}

// read reads the list of planted causes.
func (t *truth) read() (all []plantedCause, err error) {
	text, err := os.ReadFile(t.file)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w", t.file, err)
	}
	names := map[string]bool{}
	for _, planted := range all {
		service := planted.Service
		switch {
		case planted.Name == "" || names[planted.Name]:
			return nil, fmt.Errorf("%s: the name %q is empty, or there twice: give each planted cause a name of its own", t.file, planted.Name)
		case (planted.Right == nil) == (planted.Says == nil):
			return nil, fmt.Errorf("%s: %s needs either right, with kinds of causes, or says, with words", t.file, planted.Name)
		case (service == nil) == (planted.B == nil):
			return nil, fmt.Errorf("%s: %s needs either the cell b, or a service", t.file, planted.Name)
		case service != nil && !slices.Contains([]string{"", neighbour, "backend"}, service.Beside):
			return nil, fmt.Errorf("%s: %s has %q beside its service, want backend or %s", t.file, planted.Name, service.Beside, neighbour)
		case service != nil && programs[service.Program] == "":
			return nil, fmt.Errorf("%s: %s has a service in %q, want one of %s", t.file, planted.Name, service.Program, strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
		}
		names[planted.Name] = true
	}
	return all, nil
}

// lot returns the causes to plant: those that -only names and this machine can run, or some of these by lot.
func (t *truth) lot(all []plantedCause) (drawn []plantedCause) {
	for _, planted := range all {
		if !strings.Contains(planted.Name, t.only) {
			continue
		}
		if missing := planted.missing(); missing != "" {
			fmt.Fprintf(os.Stdout, "left out %s: %s\n", planted.Name, missing)
			continue
		}
		drawn = append(drawn, planted)
	}
	if t.draw == 0 {
		return drawn
	}
	rand.New(rand.NewPCG(t.seed, 0)).Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn[:min(t.draw, len(drawn))]
}

const noCause = "none"

func (e *explanation) first() string {
	if len(e.Causes) == 0 {
		return noCause
	}
	return strings.TrimSpace(e.Causes[0].End + " " + e.Causes[0].Kind)
}

// effect says how far the measured means of the cells differ.
func (e *explanation) effect() string {
	if e.Measured == nil {
		return "no measured means"
	}
	return fmt.Sprintf("%.4g to %.4g ms, %.3g×, %s", e.Measured.A/1e3, e.Measured.B/1e3, e.Measured.B/e.Measured.A, e.Measured.Verdict)
}

// score judges the first sentence by words, or the first cause by its kind.
func (p *plantedCause) score(e *explanation) string {
	if p.Says != nil {
		return p.judge(e.sentence(), len(e.Causes) > 0)
	}
	kind := noCause
	if len(e.Causes) > 0 {
		kind = e.Causes[0].Kind
	}
	switch {
	case slices.Contains(p.Right, kind):
		return right
	case kind == noCause:
		return unknown
	}
	return wrong
}

// run measures a planted cause, unless the folder has its runs already, and explains them.
func (t *truth) run(ctx context.Context, planted *plantedCause, at string) (*explanation, error) {
	measure := t.runCells
	if planted.Service != nil {
		measure = t.runService
	}
	explain, err := measure(ctx, planted, at)
	if err != nil {
		return nil, err
	}
	found, err := output(ctx, append([]string{t.wirelab, "explain", "--json"}, explain...))
	if err != nil {
		return nil, err
	}
	e := &explanation{}
	return e, json.Unmarshal(found, e)
}

// runCells measures the cells of a planted cause, and returns the arguments that explain them.
func (t *truth) runCells(ctx context.Context, planted *plantedCause, at string) ([]string, error) {
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
		if _, err := output(ctx, command); err != nil {
			return nil, err
		}
	}
	cells, err := t.measuredCells(ctx, results)
	if err != nil {
		return nil, err
	}
	return []string{results, "--cells", strings.Join(cells, ",")}, nil
}

// output runs a command and returns its output. wirelab ends with cannotTell if trials are invalid.
func output(ctx context.Context, command []string) ([]byte, error) {
	const cannotTell = 4
	found, err := exec.CommandContext(ctx, command[0], command[1:]...).Output() //nolint:gosec // the program under test
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() != cannotTell {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, failed.Stderr)
	} else if err != nil && !is {
		return nil, err
	}
	return found, nil
}

// measuredCells returns the names of a run's cells, in the order of the scenario.
func (t *truth) measuredCells(ctx context.Context, results string) (names []string, err error) {
	found, err := output(ctx, []string{t.wirelab, "export", results, "--format", "json"})
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
			"repeats": 3, "probes": strings.Split(t.probes, ","),
		},
	}
}

func onlyStack(keys map[string]any) bool {
	_, has := keys["stack"]
	return has && len(keys) == 1
}
