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
// goroutines or file descriptors behind. These are the process's: nothing may run beside it.
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
// profiler's labels, so those of one check can be told from others that run in parallel.
func runGuarded(t testing.TB, s Subject, c check) {
	t.Helper()
	s.label = strconv.FormatInt(labels.Add(1), 10)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelKey, s.label)))
	// The first clean-up runs last, after the check's own.
	t.Cleanup(func() {
		defer pprof.SetGoroutineLabels(context.Background())
		const self = 1
		if !eventually(t, func() bool { return goroutines(s.label).count <= self }) {
			left := goroutines(s.label)
			t.Errorf("%d goroutines were left behind:\n%s", left.count-self, strings.Join(left.stacks, "\n\n"))
		}
	})
	c.run(t, s)
}

type census struct {
	count  int
	stacks []string
}

// goroutines returns those that carry the label, from the profile's text form: blocks divided by
// empty lines, each "N @ addresses", its labels, its frames.
func goroutines(label string) census {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		panic(err) // a bytes.Buffer returns no error
	}
	mark := fmt.Sprintf("# labels: {%q:%q}", labelKey, label)
	var c census
	for block := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(block, mark) {
			continue
		}
		if _, after, headed := strings.Cut(block, "goroutine profile: total"); headed {
			_, block, _ = strings.Cut(after, "\n")
		}
		c.add(block)
	}
	return c
}

func (c *census) add(block string) {
	number, _, _ := strings.Cut(block, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic("the goroutine profile does not have the form that this package reads: " + block)
	}
	c.count += n
	c.stacks = append(c.stacks, block)
}

// without leaves out the goroutines in which a function runs; an empty name, none.
func (c census) without(function string) census {
	var rest census
	for _, block := range c.stacks {
		if function == "" || !strings.Contains(block, function+"+") {
			rest.add(block)
		}
	}
	return rest
}
