package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/data/record"
)

// sizing is a caller whose calls take a fixed time and have answers of given sizes, in turn. A size
// below 0 is a call that fails.
type sizing struct {
	sizes []int64
	each  time.Duration
	next  int
}

func (s *sizing) Call(context.Context) error {
	time.Sleep(s.each)
	s.next++
	if s.AnswerBytes() < 0 {
		return errors.New("no answer")
	}
	return nil
}

func (s *sizing) AnswerBytes() int64 { return s.sizes[(s.next-1)%len(s.sizes)] }

func TestAnswersAreCountedBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &sizing{sizes: []int64{21, 21, 0, -1}}, &sizing{sizes: []int64{21}}
		r := mustRun(t, Plan{Callers: []Caller{one, two}, Requests: 100})
		if got := r.Answers; got == nil || len(got.Sizes) != 2 || got.Sizes[0] != (record.SizeCount{Bytes: 0, Count: 25}) ||
			got.Sizes[1] != (record.SizeCount{Bytes: 21, Count: 150}) || got.MinBytes != 0 || got.MaxBytes != 21 {
			t.Errorf("the answers are %+v: want 25 of 0 B and 150 of 21 B", got)
		}
	})
}

func TestManySizesAreCountedByRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := &sizing{}
		for size := range int64(1000) {
			many.sizes = append(many.sizes, size)
		}
		r := mustRun(t, Plan{Callers: []Caller{many}, Requests: 1000})
		got := r.Answers
		if got.Count() != 1000 || len(got.Sizes) != record.KeptSizes || got.MinBytes != 0 || got.MaxBytes != 999 {
			t.Errorf("the answers are %+v: want 1,000 from 0 to 999 B", got)
		}
		if median := got.Median(); median > 500 || median < 440 {
			t.Errorf("the median is %d: want 499 rounded down by less than an eighth", median)
		}
	})
}

func TestCallsAreCountedByConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := Plan{
			Callers: []Caller{
				&sizing{sizes: []int64{21}, each: 5 * time.Millisecond},
				&sizing{sizes: []int64{21, -1}, each: 25 * time.Millisecond},
			},
			Duration: time.Second, Drain: time.Second, OwnConnections: true,
		}
		r := mustRun(t, plan)
		if len(r.ByConnection) != 2 {
			t.Fatalf("the result has %d connections: want 2", len(r.ByConnection))
		}
		for i, want := range []record.ConnectionCalls{
			{Client: 0, Requests: 200, SumNS: 1e9, P25NS: 5e6, P90NS: 5e6}, {Client: 1, Requests: 40, Failed: 20, SumNS: 1e9, P25NS: 25e6, P90NS: 25e6},
		} {
			got := r.ByConnection[i]
			if got.P25NS/1e5 != want.P25NS/1e5 || got.P90NS/1e5 != want.P90NS/1e5 {
				t.Errorf("connection %d has the percentiles %d and %d ns", i, got.P25NS, got.P90NS)
			}
			got.P25NS, got.P90NS = want.P25NS, want.P90NS
			if got != want {
				t.Errorf("connection %d is %+v: want %+v", i, got, want)
			}
		}
		plan.OwnConnections = false
		if r := mustRun(t, plan); r.ByConnection != nil {
			t.Errorf("callers that share connections have %+v", r.ByConnection)
		}
	})
}
