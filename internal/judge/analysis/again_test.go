package analysis

import (
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// What was measured again is counted, and what stayed spoiled is not mistaken for what is
// wrong in itself.
func TestWhatWasMeasuredAgainIsCounted(t *testing.T) {
	records := synthetic{repeats: 6, truths: []truth{{part: "a", variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond}}}.records(t)
	noise := record.Check{Name: "noise", Level: record.Invalid, Detail: "lost"}
	wrong := record.Check{Name: "errors", Level: record.Invalid, Detail: "failed"}
	records[0].Attempts = []record.Attempt{{Check: "noise"}, {Check: "noise"}}
	records[1].Attempts = []record.Attempt{{Check: "noise"}}
	records[1].Checks = []record.Check{noise}
	records[2].Checks = []record.Check{noise, wrong}
	records[3].Checks = []record.Check{noise}
	records[3].Probe = "alloc"
	records[4].Warnings = []string{"measured a second time: at first others took 60 %"} // of an older version
	s := summarize(t, records)
	if want := (RepeatCounts{Trials: 3, ThrownAway: 4, Spoiled: 1}); s.Again != want {
		t.Errorf("counted %+v, want %+v", s.Again, want)
	}
	if c := s.Cells[0]; c.Spoiled != 1 || c.Valid != 3 {
		t.Errorf("the cell has %d spoiled trials and %d valid ones, want 1 and 3", c.Spoiled, c.Valid)
	}
}
