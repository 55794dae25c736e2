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

// RunLeaks makes calls in every lifecycle of the variant, and fails if a closed client leaves
// goroutines or file descriptors behind. It counts the process's: run nothing beside it.
func RunLeaks(t *testing.T, s Subject) {
	t.Helper()
	s.inEveryLifecycle(t, func(t *testing.T, s Subject) {
		if testing.Short() && s.Lifecycle == conn.Resumed {
			t.Skip("short: a resumed connection is closed like a fresh one")
		}
		runGuarded(t, s, check{"leak", checkLeaks})
	})
}

func checkLeaks(t testing.TB, s Subject) {
	const calls, atOnce = 50, 5
	r := start(t, s)
	useAndClose(r, atOnce, atOnce) // makes the things that the runtime and libraries keep for ever
	goroutinesBefore := steady(s.lasting)
	descriptorsBefore := steady(func() int { return descriptors(t) })
	useAndClose(r, calls, atOnce)
	expectAtMost(t, "goroutines", goroutinesBefore, s.lasting)
	if s.Idle != "" { // the pool is bounded: a leak would be one goroutine per call
		all, _ := goroutines(s.label, "")
		if idle := all - s.lasting(); idle > calls/2 {
			t.Errorf("%d goroutines of %s are kept after %d calls, %d at once", idle, s.Idle, calls, atOnce)
		}
	}
	expectAtMost(t, "file descriptors", descriptorsBefore, func() int { return descriptors(t) })
	s.logFailure(t)
}

// expectAtMost waits for a count to come down. On UDP a server drops a client that gave up during
// its handshake only after ten seconds.
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

// useAndClose makes calls, atOnce at a time. Their callers give some of them up.
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

// descriptors counts the process's file descriptors; 0 on systems without /dev/fd.
func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Logf("file descriptors cannot be counted here: %v", err)
	}
	return len(open)
}

const labelKey = "stacktest"

var labels atomic.Int64

// runGuarded runs one check, and fails it if it leaves a goroutine behind. Goroutines inherit the
// profiler's labels, which distinguish one check's from those of parallel checks.
func runGuarded(t testing.TB, s Subject, c check) {
	t.Helper()
	s.label = strconv.FormatInt(labels.Add(1), 10)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelKey, s.label)))
	// The first clean-up runs last, after the check's own.
	t.Cleanup(func() {
		defer pprof.SetGoroutineLabels(context.Background())
		const self = 1
		var left int
		var stacks []string
		if !eventually(t, func() bool { left, stacks = goroutines(s.label, ""); return left <= self }) {
			t.Errorf("%d goroutines were left behind:\n%s", left-self, strings.Join(stacks, "\n\n"))
		}
	})
	c.run(t, s)
}

// goroutines returns those with the label, except those that run the function except. It reads the
// profile's text form: blocks divided by empty lines, each "N @ addresses", its labels, its
// frames.
func goroutines(label, except string) (count int, stacks []string) {
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

// lasting returns the number of a check's goroutines that the server's pool does not hold.
func (s Subject) lasting() int {
	count, _ := goroutines(s.label, s.Idle)
	return count
}

// logFailure shows the goroutines of a check that has failed.
func (s Subject) logFailure(t testing.TB) {
	if _, stacks := goroutines(s.label, ""); t.Failed() {
		t.Logf("the goroutines:\n%s", strings.Join(stacks, "\n\n"))
	}
}
