package stacktest

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const labelKey = "stacktest"

var labels atomic.Int64

// runGuarded runs one check and fails it where it leaves a goroutine behind.
//
// Goroutines inherit the profiler's labels from the one that starts them, so
// that those of one check can be told from all others, and checks may run in
// parallel.
func runGuarded(t testing.TB, s Subject, c check) {
	t.Helper()
	s.label = strconv.FormatInt(labels.Add(1), 10)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelKey, s.label)))
	// The first clean-up runs last, after the check's own.
	t.Cleanup(func() {
		defer pprof.SetGoroutineLabels(context.Background())
		const self = 1
		if left := settle(t, s.label, self); left > self {
			t.Errorf("%d goroutines were left behind:\n%s", left-self, strings.Join(goroutines(s.label).stacks, "\n\n"))
		}
	})
	c.run(t, s)
}

// settle waits until no more than want goroutines carry the label, and returns
// how many there are in the end.
func settle(t testing.TB, label string, want int) int {
	t.Helper()
	const longest = 50 * time.Millisecond
	begin := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		count := goroutines(label).count
		if count <= want || time.Since(begin) > patienceOf(t) {
			return count
		}
		time.Sleep(wait)
	}
}

type census struct {
	count  int
	stacks []string
}

// goroutines counts those that carry the label, from the profile's text form:
// blocks divided by empty lines, each "N @ addresses", its labels, its frames.
func goroutines(label string) census {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		panic(err) // a bytes.Buffer takes everything
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
		number, _, _ := strings.Cut(block, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic("the goroutine profile is not of the form this package reads: " + block)
		}
		c.count += n
		c.stacks = append(c.stacks, block)
	}
	return c
}

// without leaves out the goroutines in which a function runs; no function, none.
func (c census) without(function string) census {
	if function == "" {
		return c
	}
	var rest census
	for _, block := range c.stacks {
		if strings.Contains(block, function+"+") {
			continue
		}
		number, _, _ := strings.Cut(block, " ")
		n, _ := strconv.Atoi(number) // goroutines has read it
		rest.count += n
		rest.stacks = append(rest.stacks, block)
	}
	return rest
}
