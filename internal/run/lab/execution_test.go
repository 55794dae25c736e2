package lab

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// A rehearsal is an execution whose blocks take a second each of the bubble's time, and measure
// nothing. Every check of the trials in spoiled fails.
type rehearsal struct {
	*execution
	spoiled  []int
	measured [][]int // the trials that were measured together, in their order
	ended    []int   // the trials that observers saw end
}

// rehearse must be called in a bubble.
func rehearse(t *testing.T, plan []scenario.PlannedCell, run *record.Run, spoiled ...int) *rehearsal {
	t.Helper()
	l := &Lab{}
	e, err := l.newExecution(plan, run)
	if err != nil {
		t.Fatal(err)
	}
	r := &rehearsal{execution: e, spoiled: spoiled}
	l.Observers = []live.Observer{func(event live.Event) {
		if ended, ok := event.(live.Ended); ok {
			r.ended = append(r.ended, ended.Record.Trial)
		}
	}}
	e.measure = func(ctx context.Context, numbers []int) (records []*record.Record, err error) {
		r.measured = append(r.measured, numbers)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for _, number := range numbers {
			one := &record.Record{Trial: number, Repeat: plan[number].Repeat, Cell: recordedCell(plan[number].Cell)}
			if slices.Contains(r.spoiled, number) {
				one.Checks = []record.Check{{Name: "gaps", Level: record.Invalid}, {Name: "settled", Level: record.Invalid}}
			}
			records = append(records, one)
		}
		return records, nil
	}
	return r
}

func (r *rehearsal) wantMeasured(t *testing.T, want ...[]int) {
	t.Helper()
	if !slices.EqualFunc(r.measured, want, slices.Equal[[]int]) {
		t.Errorf("measured %v, want %v", r.measured, want)
	}
}

// stage makes a run of three repeats of two cells, and its plan. In the plan with blocks, both
// trials of a repeat are a block.
func stage(t *testing.T, blocks bool) ([]scenario.PlannedCell, *record.Run) {
	t.Helper()
	s := oneCell(t, "tcp,rest")
	s.Parts[0].Repeats = 3
	plan := s.Plan()
	if blocks {
		plan = asBlocks(plan)
	}
	return plan, create(t, s)
}

// A trial that other programs or a short warm-up spoiled is recorded as it is, and takes no more
// time than another.
func TestEveryTrialIsMeasuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, run := stage(t, false)
		r := rehearse(t, plan, run, 1, 2)
		began := time.Now()
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("the run took %v, want a second per trial", took)
		}
		r.wantMeasured(t, []int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5})
		records := recordsOf(t, run)
		if len(records) != 6 || !slices.Equal(r.ended, []int{0, 1, 2, 3, 4, 5}) {
			t.Fatalf("%d records; %v ended", len(records), r.ended)
		}
		for _, one := range records {
			if spoiled := slices.Contains(r.spoiled, one.Trial); one.Valid() == spoiled {
				t.Errorf("trial %d: valid %v, spoiled %v", one.Trial, one.Valid(), spoiled)
			}
		}
	})
}

// An interrupt ends the run at once. Resume measures the trials without a record, and a kill between
// two records of a block leaves the others of the block to be measured together.
func TestARunGoesOnWhereItWasInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, run := stage(t, true)
		r := rehearse(t, plan, run)
		stopped := errors.New("Ctrl-C")
		ctx, interrupt := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { interrupt(stopped) })
		began := time.Now()
		if err := r.run(ctx); !errors.Is(err, stopped) {
			t.Errorf("got %v, want its cause", err)
		}
		if took := time.Since(began); took != 1500*time.Millisecond {
			t.Errorf("it ended after %v", took)
		}
		r.wantMeasured(t, []int{0, 1}, []int{2, 3})
		half := record.Record{Trial: 2, Repeat: plan[2].Repeat, Cell: recordedCell(plan[2].Cell)}
		if err := errors.Join(run.Append(half), run.Finish(record.Interrupted)); err != nil {
			t.Fatal(err)
		}

		again, err := record.Resume(run.Dir)
		if err != nil {
			t.Fatal(err)
		}
		r = rehearse(t, plan, again)
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantMeasured(t, []int{3}, []int{4, 5})
		if n := len(recordsOf(t, again)); n != 6 {
			t.Errorf("%d records, want 6", n)
		}
	})
}

// A trial before the killed one in its block may lack its record: the block's missing trials are
// measured together.
func TestABlockIsCompletedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := oneCell(t, "tcp,rest,grpc")
		plan, run := asBlocks(s.Plan()), create(t, s)
		middle := record.Record{Trial: 1, Repeat: plan[1].Repeat, Cell: recordedCell(plan[1].Cell)}
		if err := run.Append(middle); err != nil {
			t.Fatal(err)
		}
		r := rehearse(t, plan, run)
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantMeasured(t, []int{0, 2})
	})
}

func TestARemoteEndEndsTheRunAfterItsTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, run := stage(t, false)
		r := rehearse(t, plan, run)
		r.Remote = &RunControls{}
		time.AfterFunc(1500*time.Millisecond, r.Remote.End)
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantMeasured(t, []int{0}, []int{1})
	})
}
