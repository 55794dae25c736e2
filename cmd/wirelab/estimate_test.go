package main

import (
	"path/filepath"
	"testing"
	"time"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
)

// planned is a plan of so many repeats of cells whose windows are these.
func planned(t *testing.T, repeats int, windows ...time.Duration) []scenario.Planned {
	t.Helper()
	var cells []scenario.Cell
	for i, window := range windows {
		cells = append(cells, scenario.Cell{Part: "p", Variant: scenario.Variant{Stack: "tcp"}, Workload: "echo", Clients: i + 1, Load: scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(window)}})
	}
	return scenario.Order(1, cells, repeats)
}

// A cell that takes ten times as long as it should moves its own repeats, and not what is
// expected of others.
func TestOneSlowCellMovesItsOwnRepeats(t *testing.T) {
	const window = 400 * time.Millisecond // a second with the overhead
	plan := planned(t, 2, window, window, window, window)
	e := newEstimate(plan, nil)
	if left := e.remaining(); left != 8*time.Second {
		t.Errorf("before anything: %v left, want 8 s", left)
	}
	for number, trial := range plan[:3] {
		took := time.Second
		if trial.Cell.Clients == plan[0].Cell.Clients {
			took = 10 * time.Second
		}
		e.took(number, took)
		delete(e.open, number)
	}
	// The slow cell once more, two more of the others, the fourth twice.
	if left := e.remaining(); left != 14*time.Second {
		t.Errorf("after three: %v left, want 14 s", left)
	}
}

// A run that goes on knows what its trials took.
func TestEstimateOfARunThatGoesOn(t *testing.T) {
	plan := planned(t, 2, 400*time.Millisecond)
	run, err := record.Create(filepath.Join(t.TempDir(), "run"), record.Manifest{Version: record.Version, Order: nil})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Finish(record.Interrupted) })
	if err := run.Append(record.Record{Version: record.Version, Trial: 0, Repeat: 1, TookNS: int64(7 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if left := newEstimate(plan, run).remaining(); left != 7*time.Second {
		t.Errorf("%v left, want what the first trial took", left)
	}
}
