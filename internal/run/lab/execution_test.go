package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

// rehearsal is an execution whose trials take a second each of the bubble's time, and
// measure nothing. The levels say what the check of that name finds in each measurement
// of a trial, the first first; what lies beyond them is ok.
type rehearsal struct {
	*execution
	levels map[int][]found
	begun  []string // "trial 3", "look"
	said   []string
}

type found struct {
	check string
	level record.Level
}

var (
	noisy = found{"noise", record.Invalid}
	wrong = found{"errors", record.Invalid}
	early = found{"settled", record.Invalid}
)

// rehearse is to be called in a bubble. The run has that many trials of one cell.
func rehearse(t *testing.T, run *record.Run, patience Patience, levels map[int][]found) *rehearsal {
	t.Helper()
	s := oneCell(t, "tcp")
	s.Parts[0].Repeats = run.Manifest.Trials
	l := &Lab{Patience: patience}
	plan := s.Plan()
	e, err := l.newExecution(plan, run)
	if err != nil {
		t.Fatal(err)
	}
	r := &rehearsal{execution: e, levels: levels}
	l.Observers = []live.Observer{r.observe}
	e.measure = func(ctx context.Context, numbers []int) ([]*record.Record, error) {
		number := numbers[0]
		r.begun = append(r.begun, fmt.Sprint("trial ", number))
		began := time.Now()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		measured := &record.Record{Trial: number, Repeat: plan[number].Repeat, Cell: recordedCell(plan[number].Cell), Started: began, TookNS: int64(time.Since(began))}
		measured.Host.OthersShare = new(0.01)
		if left := r.levels[number]; len(left) > 0 {
			r.levels[number] = left[1:]
			measured.Checks = []record.Check{{Name: left[0].check, Level: left[0].level, Detail: "it was " + left[0].check}}
			if left[0] == noisy {
				measured.Host.OthersShare = new(0.5)
			}
		}
		return []*record.Record{measured}, nil
	}
	e.takenByOthers = func(ctx context.Context) float64 {
		r.begun = append(r.begun, "look")
		select {
		case <-time.After(lookDuration):
		case <-ctx.Done():
		}
		return 0.01
	}
	return r
}

func (r *rehearsal) observe(e live.Event) {
	switch e := e.(type) {
	case live.Ended:
		r.said = append(r.said, fmt.Sprint("ends ", e.Record.Trial))
	case live.SetBack:
		r.said = append(r.said, fmt.Sprint("sets back ", e.Record.Trial, ": ", e.Why.Detail))
	case live.Waiting:
		r.said = append(r.said, fmt.Sprint("waits with ", e.Trials))
	}
}

// stage makes a run with the given number of trials.
func stage(t *testing.T, trials int) *record.Run {
	t.Helper()
	s := oneCell(t, "tcp")
	s.Parts[0].Repeats = trials
	return create(t, s)
}

// measured are the trials that were begun, without looks.
func (r *rehearsal) measured() []string {
	return slices.DeleteFunc(slices.Clone(r.begun), func(b string) bool { return b == "look" })
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A longer warm-up gets one chance; what is not steady with it is so by itself.
func TestAWindowThatOpenedTooEarlyIsMeasuredAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := stage(t, 2)
		r := rehearse(t, run, DefaultPatience, map[int][]found{0: {early}, 1: {early, early}})
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		records := recordsOf(t, run)
		if len(records) != 2 || len(r.measured()) != 4 {
			t.Fatalf("%d records of %q", len(records), r.measured())
		}
		for _, last := range records {
			if last.Valid() != (last.Trial == 0) || len(last.Attempts) != 1 || last.Attempts[0].Check != "settled" {
				t.Errorf("trial %d: valid %v, after %+v", last.Trial, last.Valid(), last.Attempts)
			}
		}
	})
}

func TestWhatOnlyTheMachineSpoiledIsMeasuredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := stage(t, 4)
		r := rehearse(t, run, DefaultPatience, map[int][]found{1: {noisy, noisy}, 2: {wrong}})
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Trial 1 is repeated between others, and again at the end; trial 2 is wrong for a
		// reason of its own, which a repeat would only hide.
		want(t, "measured", r.measured(), []string{"trial 0", "trial 1", "trial 2", "trial 1", "trial 3", "trial 1"})
		records := recordsOf(t, run)
		if len(records) != 4 || len(run.SetBackTrials()) != 0 {
			t.Fatalf("%d records, %d trials still wait", len(records), len(run.SetBackTrials()))
		}
		last := records[3]
		if last.Trial != 1 || !last.Valid() || len(last.Attempts) != 2 {
			t.Fatalf("the last record is of trial %d, valid %v, after %d attempts", last.Trial, last.Valid(), len(last.Attempts))
		}
		for i, a := range last.Attempts {
			if a.Check != "noise" || a.Detail != "it was noise" || a.TookNS != int64(time.Second) || !a.Started.Before(last.Started) {
				t.Errorf("attempt %d is kept as %+v", i, a)
			}
		}
		for _, other := range records[:3] {
			if other.Attempts != nil {
				t.Errorf("trial %d has attempts %+v", other.Trial, other.Attempts)
			}
		}
		if invalid := records[1]; invalid.Trial != 2 || invalid.Valid() {
			t.Errorf("trial %d, valid %v; want trial 2 as it was", invalid.Trial, invalid.Valid())
		}
	})
}

func TestWhatStaysSpoiledIsRefusedWhenPatienceEnds(t *testing.T) {
	for _, c := range []struct {
		patience Patience
		attempts int
	}{
		{Patience{}, 0},
		{Patience{Time: 3 * time.Second}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			run := stage(t, 2)
			r := rehearse(t, run, c.patience, map[int][]found{1: slices.Repeat([]found{noisy}, 100)})
			began := time.Now()
			if err := r.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if over := time.Since(began) - 2*time.Second - c.patience.Time; over > time.Second {
				t.Errorf("patience %v: %v longer than that and a trial", c.patience, over)
			}
			records := recordsOf(t, run)
			if len(records) != 2 || records[1].Valid() || len(records[1].Attempts) != c.attempts {
				t.Errorf("patience %v: records %+v", c.patience, records)
			}
		})
	}
}

func TestWhatIsSeenIsNotMeasuredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := stage(t, 1)
		r := rehearse(t, run, DefaultPatience, map[int][]found{0: {noisy}})
		plain := r.measure
		r.measure = func(ctx context.Context, numbers []int) ([]*record.Record, error) {
			measured, err := plain(ctx, numbers)
			measured[0].Probe = record.ProbeAllocations
			return measured, err
		}
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "measured", r.measured(), []string{"trial 0"})
	})
}

// An interrupt while the run waits ends it at once. Trials that wait to be measured again still
// wait when the run is resumed, with their discarded measurements.
func TestAnInterruptWhileTheRunWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := stage(t, 2)
		stopped := errors.New("Ctrl-C")
		ctx, interrupt := context.WithCancelCause(t.Context())
		r := rehearse(t, run, DefaultPatience, map[int][]found{1: {noisy}})
		look := r.takenByOthers
		r.takenByOthers = func(ctx context.Context) float64 {
			interrupt(stopped)
			return look(ctx)
		}
		began := time.Now()
		if err := r.run(ctx); !errors.Is(err, stopped) {
			t.Errorf("got %v, want its cause", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it ended after %v, want no time beyond the two trials", took)
		}
		want(t, "said", r.said, []string{"ends 0", "sets back 1: it was noise", "waits with 1"})
		if err := run.Finish(record.Interrupted); err != nil {
			t.Fatal(err)
		}

		again, err := record.Resume(run.Dir)
		if err != nil {
			t.Fatal(err)
		}
		r = rehearse(t, again, DefaultPatience, nil)
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "measured", r.measured(), []string{"trial 1"})
		if records := recordsOf(t, again); len(records) != 2 || len(records[1].Attempts) != 1 {
			t.Errorf("records %+v", records)
		}
		if waited := again.Manifest.WaitedNS; waited == nil || *waited != int64(lookDuration) {
			t.Errorf("the run waited %v, want the look that was interrupted", waited)
		}
	})
}

// A discarded measurement is stored on disk before its trial is measured again.
func TestARunThatCannotKeepWhatItSetsBackEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := stage(t, 1)
		if err := os.Mkdir(filepath.Join(run.Dir, "setback.jsonl"), 0o700); err != nil {
			t.Fatal(err)
		}
		r := rehearse(t, run, DefaultPatience, map[int][]found{0: {noisy}})
		if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "keep the discarded measurement of trial 0") {
			t.Errorf("got %v", err)
		}
	})
}

// What one call of Run has used of the patience is not there for the next, longer plan.
func TestPatienceIsForAllPlansOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := stage(t, 2)
		r := rehearse(t, run, Patience{Time: 3 * time.Second}, map[int][]found{1: slices.Repeat([]found{noisy}, 100)})
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := oneCell(t, "tcp")
		s.Parts[0].Repeats = 4
		longer, err := r.execution.newExecution(s.Plan(), run)
		if err != nil {
			t.Fatal(err)
		}
		if left := longer.queue.patienceLeft(); left > 0 {
			t.Errorf("%v of the patience are left", left)
		}
		want(t, "planned", []string{fmt.Sprint(longer.queue.planned)}, []string{"[2 3]"})
	})
}
