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
