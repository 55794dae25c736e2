package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"wirelab.dev/internal/judge/check"
)

// A stack is a folder and a line, a workload is a folder and a line, a study is a
// file: with no more than that, the program lists them, measures them, and tells of
// them all that it tells of others.
func TestAFolderAndALineAreEnough(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it builds a program and measures with it")
	}
	program := buildToys(t)
	listed, err := exec.CommandContext(t.Context(), program, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"another stack, at its own pace", "a word and its echo", "A toy stack under a toy workload"} {
		wantSays(t, "list", string(listed), want)
	}

	directory := filepath.Join(t.TempDir(), "run")
	var exit *exec.ExitError
	out, err := exec.CommandContext(t.Context(), program, "run", "toy-study", "--quick", "-o", directory).CombinedOutput()
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitInvalid) {
		t.Fatalf("%v\n%s", err, out)
	}
	tables, err := filepath.Glob(filepath.Join(directory, "toys_*.csv"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("tables of the study: %v, %v", tables, err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"operation,stack,protocol,requests", "hello,toy,TCP,50", "bye,toy:pace=lazy,TCP,50", "hello,tcp,TCP,50"} {
		wantSays(t, "the study's table", string(table), want)
	}

	// From here on this program, which has no toys, reads the run: it knows them by
	// what the manifest says. On a noisy machine the trials may have been invalid,
	// which is another matter.
	text := reported(t, patient(), "report", directory, "-v")
	for _, want := range []string{
		" times as long as tcp in 1 case",         // over the other case
		"Undecided: toy:pace=lazy over tcp, CPU ", // by what changes
	} {
		wantSays(t, "the report", text, want)
	}
	page, err := os.ReadFile(filepath.Join(directory, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, string(page))
}

// checkPage looks for the toys in what the page draws from.
func checkPage(t *testing.T, page string) {
	t.Helper()
	_, data, _ := strings.Cut(page, `<script type="application/json" id="run">`)
	data, _, _ = strings.Cut(data, "</script>")
	var run struct {
		Stacks    []string
		Choices   map[string]string
		Contrasts []struct{ Option, Changed, From, To string }
	}
	if err := json.Unmarshal([]byte(data), &run); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(run.Stacks, "toy") {
		t.Errorf("the toy has no colour: %v", run.Stacks)
	}
	if run.Choices["pace"] != "the pace of a toy" {
		t.Errorf("the choices are called %v", run.Choices)
	}
	if len(run.Contrasts) != 2 || run.Contrasts[0].Option != "pace" || run.Contrasts[0].From != "brisk" || run.Contrasts[0].To != "lazy" {
		t.Errorf("the pace is contrasted as %+v", run.Contrasts)
	}
}

// patient are limits that no neighbour on the machine can break.
func patient() check.Limits {
	limits := check.DefaultLimits()
	never := check.Bounds{Warning: math.Inf(1), Invalid: math.Inf(1)}
	limits.Others, limits.Between, limits.Moved, limits.Drift = never, never, never, never
	limits.Saturated, limits.Little, limits.Stolen = math.Inf(1), math.Inf(1), math.Inf(1)
	return limits
}

// buildToys builds the program with the toys laid over its sources.
func buildToys(t *testing.T) (program string) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "toy.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	laid := map[string]string{}
	lay := func(name string, data []byte) {
		file := filepath.Join(folder, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		laid[filepath.Join(root, filepath.FromSlash(name))] = file
	}
	for _, file := range archive.Files {
		if file.Name != "lines" {
			lay(file.Name, file.Data)
			continue
		}
		for line := range strings.Lines(string(file.Data)) {
			catalog, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
			path, entry, _ := strings.Cut(rest, "\t")
			lay(catalog, withLine(t, filepath.Join(root, catalog), path, entry))
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": laid})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(folder, "wirelab")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(folder, "overlay.json"), "-o", program, "./cmd/wirelab")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// withLine is a catalogue with one more entry at the end of its list.
func withLine(t *testing.T, file, path, entry string) []byte {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(source), "import (", "import (\n\t"+path, 1)
	const end = "\n\t}\n}\n" // of the first list
	before, after, found := strings.Cut(text, end)
	if !found {
		t.Fatalf("%s has no list", file)
	}
	return []byte(before + "\n\t\t" + entry + end + after)
}
