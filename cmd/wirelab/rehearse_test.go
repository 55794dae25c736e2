package main

import (
	"path/filepath"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

// A run that goes on is rehearsed as far as it is not done.
func TestRehearsalOfARunThatGoesOn(t *testing.T) {
	s, err := scenarioLibrary.FindScenario("kernel-study")
	if err != nil {
		t.Fatal(err)
	}
	j := job{scenario: s, output: outputFlags{directory: filepath.Join(t.TempDir(), "run")}}
	run, err := (&app{}).open(&j, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := run.Manifest.Trials
	for trial := range 3 {
		if err := run.Append(record.Record{Trial: trial, Repeat: run.Manifest.Order[trial].Repeat}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Finish(record.Interrupted); err != nil {
		t.Fatal(err)
	}
	var said, errors strings.Builder
	a := &app{stdout: &said, stderr: &errors}
	j.resume = true
	if err := a.printPlan(t.Context(), &j); err != nil {
		t.Fatal(err)
	}
	want := "\n3 trials are done; remaining: " + itoa(all-3) + " trials of "
	if !strings.Contains(said.String(), want) {
		t.Errorf("want %q in\n%s", want, said.String())
	}
	j.resume = false
	if err := a.printPlan(t.Context(), &j); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Errorf("a run is in the way, and it says %v", err)
	}
}
