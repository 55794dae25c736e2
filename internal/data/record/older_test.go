package record

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// A record of another run would be mistaken for one of this run.
func TestTrialsOfAnotherRunAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"cell":   func(r *Record) { r.Cell.Variant = "grpc" },
		"repeat": func(r *Record) { r.Repeat = 2 },
		"trial":  func(r *Record) { r.Trial = 99 },
	} {
		foreign := sample(2)
		spoil(&foreign)
		recorded := begin(t, 1)
		if err := recorded.Append(foreign); err != nil {
			t.Fatal(err)
		}
		finish(t, recorded)
		for r, err := range recorded.Records() {
			if r.Trial != 0 && (err == nil || !strings.Contains(err.Error(), recordsFile+": line 2") || !strings.Contains(err.Error(), foreign.Cell.Key())) {
				t.Errorf("another %s: got %v, want the file, the line and the cell", name, err)
			}
		}
	}
}

// Older versions measured disturbed trials again. Their fields and their file are ignored, and a
// trial that waited to be measured again has no record yet.
func TestARunWithDiscardedMeasurementsCanBeRead(t *testing.T) {
	w := begin(t, 1)
	finish(t, w)
	for name, edit := range map[string]func(text string) string{
		manifestFile: func(text string) string { return strings.Replace(text, "{", `{"waited_ns": 100000000,`, 1) },
		recordsFile: func(text string) string {
			return strings.Replace(text, "{", `{"attempts":[{"started":"2026-11-21T05:00:00Z","took_ns":5,"check":"noise","detail":"lost"}],`, 1)
		},
		"setback.jsonl": func(string) string { return `{"version":1,"trial":1,"repe` },
	} {
		text, err := os.ReadFile(w.path(name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.path(name), []byte(edit(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := trials(t, r); len(got) != 1 || len(r.Warnings) != 0 {
		t.Errorf("read trials %v, with warnings %q", got, r.Warnings)
	}
	if r, err = Resume(w.Dir); err != nil {
		t.Fatal(err)
	}
	if r.Done(1) || len(r.Warnings) != 0 {
		t.Errorf("the trial that waited is done: %v; warnings %q", r.Done(1), r.Warnings)
	}
	if err := r.Append(sample(1)); err != nil {
		t.Fatal(err)
	}
	finish(t, r)
}
