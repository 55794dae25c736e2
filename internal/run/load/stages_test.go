package load

import (
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/data/record"
)

// Each stage sends what its rates say, and the result has the figures of each.
func TestStages(t *testing.T) {
	stages := []record.Stage{{Length: time.Second, To: 100}, {Length: 2 * time.Second, From: 100, To: 500}, {Length: time.Second, From: 500}}
	want := []int64{50, 600, 250}
	for name, a := range map[string]Arrivals{"together": {Stages: stages}, "lanes": {Stages: stages, Own: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{delay: time.Millisecond}
				r := mustRun(t, Plan{Callers: callers(20, s), Duration: 4 * time.Second, Drain: time.Second, Open: &a})
				if err := r.Encode(); err != nil {
					t.Fatal(err)
				}
				if s.calls.Load() != 900 || r.Requests != 900 || len(r.Named) != 3 {
					t.Fatalf("%d requests, %d measured, %d stages; want 900 in 3", s.calls.Load(), r.Requests, len(r.Named))
				}
				for i, n := range r.Named {
					if n.Stage != i+1 || n.Requests != want[i] || n.Service.Count != want[i] || n.Response == nil {
						t.Errorf("stage %d has %d requests, want %d", n.Stage, n.Requests, want[i])
					}
				}
			})
		})
	}
}

// A slow answer counts as an answer of the stage in which it ends, and its time belongs to the stage in
// which it was due.
func TestStagesOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(200, &server{delay: 500 * time.Millisecond}), Duration: 2 * time.Second, Drain: time.Second,
			Open: &Arrivals{Stages: []record.Stage{{Length: time.Second, From: 100, To: 100}, {Length: time.Second, From: 100, To: 100}}},
		})
		if err := r.Encode(); err != nil {
			t.Fatal(err)
		}
		first, second := r.Named[0], r.Named[1]
		if first.Requests != 100 || second.Requests != 100 || first.Completed != 50 || second.Completed != 100 {
			t.Errorf("%d requests and %d answers, then %d and %d; want 100 and 50, then 100 and 100", first.Requests, first.Completed, second.Requests, second.Completed)
		}
	})
}

// A course from nothing, through nothing, and to nothing is a schedule, too.
func TestStagesOfNothing(t *testing.T) {
	s, err := newSchedule(Arrivals{Stages: []record.Stage{{Length: time.Second}, {Length: time.Second, To: 10}, {Length: time.Second, From: 10}, {Length: time.Second}}}, 4*time.Second, whole)
	if err != nil {
		t.Fatal(err)
	}
	if s.count != 10 || s.offsets[0] <= int64(time.Second) || s.offsets[9] >= int64(3*time.Second) {
		t.Errorf("%d arrivals at %v, want 10 within the second and third second", s.count, s.offsets)
	}
	for _, wrong := range []record.Stage{{}, {Length: time.Second}, {Length: time.Second, From: -1, To: 5}} {
		if _, err := Run(t.Context(), Plan{Callers: callers(1, emptyCaller{}), Duration: time.Second, Open: &Arrivals{Stages: []record.Stage{wrong}}}); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}
