package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/show/report"
)

// kept copies testdata/kept, three trials of a real run: one was refused for
// noise when it was measured, the others were not.
func kept(t *testing.T) (directory string) {
	t.Helper()
	directory = t.TempDir()
	if err := os.CopyFS(directory, os.DirFS(filepath.Join("testdata", "kept"))); err != nil {
		t.Fatal(err)
	}
	return directory
}

// reported runs a subcommand over the run with these limits.
func reported(t *testing.T, limits check.Limits, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, limits: limits}
	root := a.root()
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatalf("wirelab %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// rejudgedObject holds the members that these tests read.
type rejudgedObject struct {
	Trials   report.TrialCounts
	Rejudged *analysis.RejudgedChecks
}

func reportedObject(t *testing.T, limits check.Limits, directory string) rejudgedObject {
	t.Helper()
	var object rejudgedObject
	if err := json.Unmarshal([]byte(reported(t, limits, "report", directory, "--json")), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func wantSays(t *testing.T, where, text, want string) {
	t.Helper()
	if joined := strings.Join(strings.Fields(text), " "); !strings.Contains(joined, want) {
		t.Errorf("%s does not say %q:\n%s", where, want, text)
	}
}

func readAll(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAnOldRunChangesItsMindWithTheLimits(t *testing.T) {
	directory := kept(t)
	records := readAll(t, directory, "records.jsonl")

	today := check.DefaultLimits() // has no check noise; neighbours looks for the same
	got := reportedObject(t, today, directory)
	if r := got.Rejudged; got.Trials.Invalid != 0 || r == nil || r.NowValid != 1 || r.NowInvalid != 0 {
		t.Errorf("by today's limits: %d invalid, %+v", got.Trials.Invalid, r)
	}
	wantSays(t, "the terminal", reported(t, today, "report", directory, "-v"),
		"Judged again by this version: 0 trials now invalid, 1 now valid. Why: neighbours in 1 trial (a worker that only spun")

	strict := check.DefaultLimits()
	strict.Saturated, strict.Idle = 0, 1
	got = reportedObject(t, strict, directory)
	if r := got.Rejudged; got.Trials.Invalid != 3 || r == nil || r.NowInvalid != 2 || r.NowValid != 0 {
		t.Errorf("with a strict limit: %d invalid, %+v", got.Trials.Invalid, r)
	}
	const says = "Judged again by this version: 2 trials now invalid, 0 now valid. Why: generator-bound in 2 trials (the client used"
	wantSays(t, "the answer", reported(t, strict, "report", directory), "Judged again by this version: 2 trials now invalid, 0 now valid.")
	wantSays(t, "the terminal", reported(t, strict, "report", directory, "-v"), says)
	wantSays(t, "the page", strings.ReplaceAll(readAll(t, directory, "report.html"), `\u0026`, "&"), says)
	wantSays(t, "the export", reported(t, strict, "export", directory, "--format", "json"), says)

	if readAll(t, directory, "records.jsonl") != records {
		t.Error("the stored records were changed")
	}
}

// A record of an older version may lack what a check reads: what was said with
// the figure at hand stands.
func TestWhatCannotBeJudgedAgainStands(t *testing.T) {
	directory := kept(t)
	records := readAll(t, directory, "records.jsonl")
	older := strings.NewReplacer(`"others_share"`, `"else"`, `"stolen_share"`, `"other"`, `"name":"neighbours"`, `"name":"stolen-cpu"`, `"name":"noise"`, `"name":"neighbours"`).Replace(records)
	if err := os.WriteFile(filepath.Join(directory, "records.jsonl"), []byte(older), 0o644); err != nil {
		t.Fatal(err)
	}
	got := reportedObject(t, check.DefaultLimits(), directory)
	if got.Trials.Invalid != 1 {
		t.Errorf("%d trials are invalid, want the one that was when it was measured", got.Trials.Invalid)
	}
	if r := got.Rejudged; r == nil || len(r.Changes) != 0 || len(r.Kept) != 1 || r.Kept[0] != (analysis.KeptCheck{Check: "neighbours", Trials: 3}) {
		t.Errorf("rejudged: %+v", r)
	}
	wantSays(t, "the terminal", reported(t, check.DefaultLimits(), "report", directory, "-v"), "because the records lack the check's figures: neighbours (3 trials).")
}
