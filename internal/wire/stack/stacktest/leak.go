package stacktest

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// RunLeaks makes calls in every lifecycle that the variant supports, and fails if a
// closed client leaves goroutines or file descriptors behind, at either end.
// Descriptors are counted for the whole process, so nothing may run beside it.
func RunLeaks(t *testing.T, s Subject) {
	t.Helper()
	s.inEveryLifecycle(t, func(t *testing.T, s Subject) {
		if testing.Short() && s.Lifecycle == conn.Resumed {
			t.Skip("short: a resumed connection is closed as a fresh one is")
		}
		runGuarded(t, s, check{"leak", checkLeaks})
	})
}

func checkLeaks(t testing.TB, s Subject) {
	const calls, atOnce = 50, 5
	r := start(t, s)
	useAndClose(r, atOnce, atOnce) // what is made once and kept, by the runtime and by libraries
	count := func() int { return goroutines(s.label).without(s.Idle).count }
	goroutinesBefore := steady(count)
	descriptorsBefore := steady(func() int { return descriptors(t) })
	useAndClose(r, calls, atOnce)
	expectAtMost(t, "goroutines", goroutinesBefore, count)
	if s.Idle != "" { // the pool is bounded: a leak would be one goroutine per call
		all := goroutines(s.label)
		if idle := all.count - all.without(s.Idle).count; idle > calls/2 {
			t.Errorf("%d goroutines of %s are kept after %d calls, %d at once", idle, s.Idle, calls, atOnce)
		}
	}
	expectAtMost(t, "file descriptors", descriptorsBefore, func() int { return descriptors(t) })
	if t.Failed() {
		t.Logf("the goroutines:\n%s", strings.Join(goroutines(s.label).stacks, "\n\n"))
	}
}

// expectAtMost waits for a count to come down. On UDP a server may not hear of a client
// that gave up during its handshake on a starved machine: then the server drops it
// after ten seconds.
func expectAtMost(t testing.TB, what string, before int, count func() int) {
	t.Helper()
	if !eventually(t, func() bool { return count() <= before }) {
		t.Errorf("%d %s before, %d after", before, what, count())
	}
}

// steady returns a count that has not changed for a while.
func steady(count func() int) int {
	const looks, apart = 5, 10 * time.Millisecond
	last := count()
	for same := 0; same < looks; same++ {
		time.Sleep(apart)
		if now := count(); now != last {
			same, last = 0, now
		}
	}
	return last
}

// useAndClose makes calls, atOnce at a time. Some are given up by their callers.
func useAndClose(r *rig, calls, atOnce int) {
	r.t.Helper()
	useClient(r.t, r.subject, r.subject.target(stack.Target{Address: r.address, Connections: 2}), func(stub testpb.TestServiceClient) {
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				for range calls / atOnce {
					if i == 0 {
						_, _ = stub.Unary(within(r.t, time.Millisecond), &testpb.TestRequest{SleepNs: int64(10 * time.Millisecond)})
						continue
					}
					_, err := stub.Unary(bounded(r.t), &testpb.TestRequest{Body: []byte("x")})
					expectNoError(r.t, "Unary", err)
				}
			})
		}
		all.Wait()
	})
}

// descriptors counts the process's file descriptors. It returns 0 on systems without
// /dev/fd.
func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Logf("file descriptors cannot be counted here: %v", err)
	}
	return len(open)
}
