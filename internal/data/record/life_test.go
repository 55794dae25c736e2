package record

import (
	"slices"
	"strings"
	"testing"
)

// TestSlowAndMedianCalls wants the slowest 1 % or 10 calls, and the calls between P40 and P60.
func TestSlowAndMedianCalls(t *testing.T) {
	lifeOf := func(calls int) *Life {
		l := &Life{}
		for i := range calls {
			l.Calls = append(l.Calls, []int64{1, int64(i * 7 % calls)}) // no two calls take equally long
		}
		return l
	}
	for calls, want := range map[int]struct{ slow, median int }{1: {1, 1}, 4: {4, 2}, 100: {10, 20}, 1003: {11, 201}, 3000: {30, 600}} {
		l := lifeOf(calls)
		bySpeed := l.BySpeed()
		slow, median := MostSlowCalls(bySpeed), MedianCalls(bySpeed)
		if len(slow) != want.slow || len(median) != want.median {
			t.Errorf("of %d calls %d are slow and %d median, want %+v", calls, len(slow), len(median), want)
		}
		for i, call := range slow {
			if l.Calls[call][1] != int64(calls-1-i) {
				t.Errorf("of %d calls, slow call %d takes %d", calls, i, l.Calls[call][1])
			}
		}
		for i, call := range median {
			if l.Calls[call][1] != int64(i)+int64(calls*2/5) {
				t.Errorf("of %d calls, median call %d takes %d", calls, i, l.Calls[call][1])
			}
		}
	}
}

func TestCallStacksWithWrongIndices(t *testing.T) {
	whole := func() *CallStacks {
		return &CallStacks{
			Functions: []string{"handler", "main.f"}, Stacks: [][]int{{0}, {0, 1}},
			Slow: [][]StackTime{{{1, 50}}, {{0, 20}, {1, 20}}}, Median: []StackTime{{0, 5}},
		}
	}
	for want, damage := range map[string]func(*CallStacks){
		"":                        func(*CallStacks) {},
		"refers to function 2":    func(c *CallStacks) { c.Stacks[1][1] = 2 },
		"refers to function -1":   func(c *CallStacks) { c.Stacks[0][0] = -1 },
		"has no stage":            func(c *CallStacks) { c.Stacks[0] = nil },
		"refers to call stack 2":  func(c *CallStacks) { c.Slow[1][1].Stack = 2 },
		"refers to call stack -1": func(c *CallStacks) { c.Median[0].Stack = -1 },
	} {
		c := whole()
		damage(c)
		err := (&Record{Life: &Life{Stacks: c}}).checkIndices()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if names := whole().Names(1); !slices.Equal(names, []string{"handler", "main.f"}) {
		t.Errorf("a stack is %q", names)
	}
}
