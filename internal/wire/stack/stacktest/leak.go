package stacktest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// RunLeaks makes calls in every lifecycle of the variant. It fails if closed clients leave
// goroutines or file descriptors behind. It counts the goroutines and descriptors of the whole
// process, so run no other test meanwhile.
func RunLeaks(t *testing.T, s Subject) {
	t.Helper()
	s.inEveryLifecycle(t, func(t *testing.T, s Subject) {
		if testing.Short() && s.Lifecycle == conn.Resumed {
			t.Skip("skipped in short tests: a resumed connection is closed like a fresh one")
		}
		runGuarded(t, s, check{"leak", checkLeaks})
	})
}

func checkLeaks(t testing.TB, s Subject) {
	const calls, atOnce = 50, 5
	r := startService(t, s)
	callAndClose(r, atOnce, atOnce) // creates the goroutines and descriptors that stay for ever
	goroutinesBefore := stableCount(s.lastingGoroutines)
	descriptorsBefore := stableCount(func() int { return countDescriptors(t) })
	callAndClose(r, calls, atOnce)
	expectCountAtMost(t, "goroutines", goroutinesBefore, s.lastingGoroutines)
	if s.Idle != "" { // the server's pool is bounded; a leak would add one goroutine per call
		all, _ := goroutinesWith(s.label, "")
		if idle := all - s.lastingGoroutines(); idle > calls/2 {
			t.Errorf("the server keeps %d goroutines of %s after %d calls, %d of them at a time", idle, s.Idle, calls, atOnce)
		}
	}
	expectCountAtMost(t, "file descriptors", descriptorsBefore, func() int { return countDescriptors(t) })
	s.logFailure(t)
}

// expectCountAtMost waits until a count falls to its old value. Over UDP, if a client gives up
// during its handshake, the server keeps its state for ten seconds.
func expectCountAtMost(t testing.TB, what string, before int, count func() int) {
	t.Helper()
	if !becomesTrue(t, func() bool { return count() <= before }) {
		t.Errorf("the process had %d %s before the calls, and has %d after them", before, what, count())
	}
}

// stableCount waits until a count no longer changes, and returns it.
func stableCount(count func() int) int {
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

// callAndClose makes calls, atOnce of them in parallel, and closes the client. Some calls are
// cancelled.
func callAndClose(r *rig, calls, atOnce int) {
	r.t.Helper()
	useClient(r.t, r.subject, r.subject.target(stack.Target{Address: r.address, Connections: 2}), func(stub testpb.TestServiceClient) {
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				for range calls / atOnce {
					if i == 0 {
						_, _ = stub.Unary(timeoutContext(r.t, time.Millisecond), &testpb.TestRequest{SleepNs: int64(10 * time.Millisecond)})
						continue
					}
					_, err := stub.Unary(checkContext(r.t), &testpb.TestRequest{Body: []byte("x")})
					expectNoError(r.t, "Unary", err)
				}
			})
		}
		all.Wait()
	})
}

// countDescriptors returns the number of the process's file descriptors, or 0 without /dev/fd.
func countDescriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Logf("file descriptors cannot be counted here: %v", err)
	}
	return len(open)
}

const labelKey = "stacktest"

var labelCount atomic.Int64

// runGuarded runs one check. It fails the check if the check leaves a goroutine behind. Goroutines
// inherit profiler labels, which separate the checks that run in parallel.
func runGuarded(t testing.TB, s Subject, c check) {
	t.Helper()
	s.label = strconv.FormatInt(labelCount.Add(1), 10)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelKey, s.label)))
	// This clean-up is registered first, so it runs last, after the clean-ups of the check.
	t.Cleanup(func() {
		defer pprof.SetGoroutineLabels(context.Background())
		const self = 1
		var left int
		var stacks []string
		if !becomesTrue(t, func() bool { left, stacks = goroutinesWith(s.label, ""); return left <= self }) {
			t.Errorf("the check left %d goroutines behind:\n%s", left-self, strings.Join(stacks, "\n\n"))
		}
	})
	c.run(t, s)
}

// goroutinesWith returns the goroutines that have the label and do not run the function except. It
// reads the profile's text form: blocks separated by empty lines, each with "N @ addresses",
// labels and frames.
func goroutinesWith(label, except string) (count int, stacks []string) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		panic(err) // a bytes.Buffer returns no error
	}
	mark := fmt.Sprintf("# labels: {%q:%q}", labelKey, label)
	for block := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(block, mark) || except != "" && strings.Contains(block, except+"+") {
			continue
		}
		if _, after, headed := strings.Cut(block, "goroutine profile: total"); headed {
			_, block, _ = strings.Cut(after, "\n")
		}
		number, _, _ := strings.Cut(block, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic("the goroutine profile does not have the form that this package reads: " + block)
		}
		count += n
		stacks = append(stacks, block)
	}
	return count, stacks
}

// lastingGoroutines returns the number of a check's goroutines outside the server's pool.
func (s Subject) lastingGoroutines() int {
	count, _ := goroutinesWith(s.label, s.Idle)
	return count
}

func (s Subject) logFailure(t testing.TB) {
	if _, stacks := goroutinesWith(s.label, ""); t.Failed() {
		t.Logf("the goroutines:\n%s", strings.Join(stacks, "\n\n"))
	}
}
