package record

import (
	"errors"
	"os"
	"testing"
)

// A run that is in memory has its records also if they cannot be written, and says why.
func TestRunInMemorySurvivesAFullDisk(t *testing.T) {
	w := begin(t, 0)
	w.KeepInMemory()
	if err := w.Append(sample(0)); err != nil || w.Lost() != nil {
		t.Fatalf("%v, lost %v", err, w.Lost())
	}
	whole := w.records.file
	readOnly, err := os.Open(w.path(recordsFile))
	if err != nil {
		t.Fatal(err)
	}
	w.records.file = readOnly
	for trial := 1; trial < 3; trial++ {
		if err := w.Append(sample(trial)); err != nil || w.Lost() == nil {
			t.Fatalf("%v, lost %v", err, w.Lost())
		}
	}
	if got := trials(t, w); len(got) != 3 {
		t.Errorf("trials %v, want three", got)
	}
	if err := errors.Join(w.Finish(Done), whole.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestRunWithoutADirectory(t *testing.T) {
	w := InMemory(Manifest{Name: "load"})
	if err := w.Append(sample(0)); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(sample(0)); err == nil {
		t.Error("a trial was taken twice")
	}
	if err := w.Replan([]PlannedTrial{{Trial: 0}, {Trial: 1}}); err != nil {
		t.Error(err)
	}
	if err := w.Finish(Done); err != nil || w.Lost() != nil {
		t.Errorf("%v, lost %v", err, w.Lost())
	}
	if got := trials(t, w); len(got) != 1 || w.Manifest.Trials != 2 || w.Manifest.Ended == nil {
		t.Errorf("trials %v of %d, ended %v", got, w.Manifest.Trials, w.Manifest.Ended)
	}
}
