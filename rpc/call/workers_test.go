package rpccall

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestWorkers checks that every call is served, that a slow one delays no other, that
// goroutines are used again, and that Wait waits for calls.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served atomic.Int64
		release := make(chan struct{})
		w := Workers[int]{Serve: func(call int) {
			if call < 0 {
				<-release
			}
			served.Add(1)
		}}
		w.Push(nil)
		w.Push([]int{-1, 1, -2, 2, 3})
		synctest.Wait()
		if n := served.Load(); n != 3 {
			t.Errorf("%d calls were served beside 2 slow ones, want 3", n)
		}
		before := len(w.idle)
		for i := range 1000 {
			w.Push([]int{i})
			synctest.Wait()
		}
		if n := served.Load(); n != 1003 || len(w.idle) != before {
			t.Errorf("%d calls were served, want 1003; %d idle workers, before %d", n, len(w.idle), before)
		}
		w.Close()
		close(release)
		w.Wait()
		if n := served.Load(); n != 1005 {
			t.Errorf("Wait returned after %d calls, want 1005", n)
		}
	})
}

// TestQueue checks the order, that one message takes no memory of its own, and that a read
// message is not kept.
func TestQueue(t *testing.T) {
	var q Queue[*int]
	if _, ok := q.Take(); ok || q.Last() != nil {
		t.Error("an empty queue has a message")
	}
	numbers := []int{0, 1, 2, 3}
	for i := range numbers {
		q.Put(&numbers[i])
	}
	if **q.First() != 0 || **q.Last() != 3 || q.Len() != 4 {
		t.Errorf("%d messages from %d to %d, want 4 from 0 to 3", q.Len(), **q.First(), **q.Last())
	}
	for want := range numbers {
		if got, ok := q.Take(); !ok || *got != want {
			t.Fatalf("took %v, %v; want %d", got, ok, want)
		}
	}
	if q.first[0] != nil || q.items != nil {
		t.Error("an empty queue keeps memory")
	}
	if n := testing.AllocsPerRun(100, func() {
		q.Put(&numbers[0])
		q.Take()
	}); n != 0 {
		t.Errorf("one message allocates %v times", n)
	}
}
