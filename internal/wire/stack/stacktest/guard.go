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
)

const labelKey = "stacktest"

var labels atomic.Int64

// runGuarded runs one check, and fails it if it leaves a goroutine behind.
//
// Goroutines inherit the profiler's labels from the one that starts them. So the
// goroutines of one check can be told from all others, and checks may run in
// parallel.
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

// goroutines returns those that carry the label. It reads them from the profile's text
// form: blocks divided by empty lines, each "N @ addresses", its labels, its frames.
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

// without leaves out the goroutines in which a function runs. An empty name leaves out
// none.
func (c census) without(function string) census {
	var rest census
	for _, block := range c.stacks {
		if function == "" || !strings.Contains(block, function+"+") {
			rest.add(block)
		}
	}
	return rest
}
