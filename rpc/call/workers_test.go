package rpccall

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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

// TestIdleWorkersEnd checks that the workers of a flood end when they have been idle for a while,
// and that workers stay that are used now and then.
func TestIdleWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := 0
		release := make(chan struct{})
		w := Workers[int]{Serve: func(int) { <-release }}
		flood := func(calls int) {
			w.Push(make([]int, calls))
			synctest.Wait()
			for range calls {
				release <- struct{}{}
				served++
			}
			synctest.Wait()
		}
		check := func(when string, idle int) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.idle) != idle {
				t.Errorf("%s: %d workers are idle, want %d", when, len(w.idle), idle)
			}
		}
		flood(300)
		check("after a flood", 300)
		for range 100 {
			time.Sleep(idleWorkerTime / 10)
			flood(50)
		}
		check("after many small floods", 50)
		time.Sleep(2 * idleWorkerTime)
		synctest.Wait()
		check("after two seconds", keptIdleWorkers)
		w.mu.Lock()
		if w.trimming {
			t.Error("the timer runs on, though nothing is left to end")
		}
		w.mu.Unlock()
		flood(1000)
		check("after another flood", maxIdleWorkers)
		w.Close()
		w.Wait() // for all workers: those that the timer has taken from the list have ended, too
		if served != 300+100*50+1000 {
			t.Errorf("%d calls were served", served)
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
