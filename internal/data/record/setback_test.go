package record

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// waiting returns the trials that wait to be measured again.
func waiting(r *Run) []int {
	var trials []int
	for _, record := range r.SetBackTrials() {
		trials = append(trials, record.Trial)
	}
	return trials
}

func wantWaiting(t *testing.T, r *Run, want ...int) {
	t.Helper()
	got := waiting(r)
	if len(got) != len(want) {
		t.Fatalf("waiting: %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("waiting: %v, want %v", got, want)
		}
	}
}

func setBack(t *testing.T, r *Run, trial int, attempts ...Attempt) {
	t.Helper()
	spoiled := sample(trial)
	spoiled.Attempts = attempts
	if err := r.SetBack(spoiled); err != nil {
		t.Fatal(err)
	}
}

// A trial that waits to be measured again has no record. It still waits after the run was stopped
// and resumed, and its record is then appended as usual.
func TestSetBackTrialsAreStillWaitingWhenTheRunGoesOn(t *testing.T) {
	w := begin(t, 2)
	setBack(t, w, 2)
	setBack(t, w, 3)
	setBack(t, w, 4)
	if err := w.Append(sample(3)); err != nil {
		t.Fatal(err)
	}
	setBack(t, w, 2, Attempt{Check: "noise"})
	wantWaiting(t, w, 4, 2)
	finish(t, w)

	// A killed process may leave half a line.
	file, err := os.OpenFile(w.path(setBackFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(`{"version":1,"trial":5`)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := Resume(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	wantWaiting(t, r, 4, 2)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], setBackFile+": line 5 is half written") {
		t.Errorf("warnings %q", r.Warnings)
	}
	if last := r.SetBackTrials()[1]; len(last.Attempts) != 1 || last.Attempts[0].Check != "noise" || last.Requests == 0 {
		t.Errorf("the last measurement of trial 2 came back as %+v", last)
	}
	if r.Done(2) || r.Done(4) || !r.Done(3) {
		t.Errorf("done: 2 %v, 4 %v, 3 %v", r.Done(2), r.Done(4), r.Done(3))
	}
	for _, trial := range waiting(r) {
		if err := r.Append(sample(trial)); err != nil {
			t.Fatal(err)
		}
	}
	wantWaiting(t, r)
	if err := r.SetBack(sample(2)); err == nil {
		t.Error("SetBack accepted a trial that has a record")
	}
	finish(t, r)
	if err := r.SetBack(sample(7)); err == nil {
		t.Error("a run that is finished was written")
	}
	if got := trials(t, r); len(got) != 5 {
		t.Errorf("trials %v, want five", got)
	}
}

// A measurement of another run would become this one's, at once or when the patience is
// used up.
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
		w := begin(t, 1)
		if err := w.SetBack(foreign); err != nil {
			t.Fatal(err)
		}
		finish(t, w)
		if _, err := Resume(w.Dir); err == nil || !strings.Contains(err.Error(), setBackFile+": line 1") || !strings.Contains(err.Error(), foreign.Cell.Key()) {
			t.Errorf("another %s: got %v, want the file, the line and the cell", name, err)
		}
	}
}

func TestDamageAmongSetBackTrialsIsNamed(t *testing.T) {
	w := begin(t, 1)
	setBack(t, w, 1)
	finish(t, w)
	if err := os.WriteFile(w.path(setBackFile), []byte("{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(w.Dir); err == nil || !strings.Contains(err.Error(), setBackFile+": line 1") {
		t.Errorf("got %v, want the file and the line", err)
	}
}
