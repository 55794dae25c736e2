package record

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
)

// Life holds the times of single calls, stage by stage.
type Life struct {
	Method string   `json:"method"`
	Stages []string `json:"stages"` // names of the stages, in the order of a call
	// Calls holds, for each call, the durations of its stages in nanoseconds. They add up to the
	// duration of the call.
	Calls [][]int64 `json:"calls"`
	// Begins holds when each call began, in nanoseconds from the begin of the window; empty if unknown.
	Begins []int64 `json:"begins_ns,omitempty"`
	// Untold counts the calls whose stages could not be separated.
	Untold int64 `json:"untold"`
	// TracedNS and BareNS are the mean durations of a call with the probe on and off. The probe
	// alternated in the same process. TracedNS and BareNS are absent if the probe was always on.
	TracedNS *float64 `json:"traced_ns,omitempty"`
	BareNS   *float64 `json:"bare_ns,omitempty"`
	Missing  []string `json:"missing,omitempty"`
	// Unread is the mean number of requests that lay in the sockets of a user's service, because it had not
	// read them; absent if unknown.
	Unread *float64 `json:"unread,omitempty"`
	// Unacknowledged is the mean number of connections with a part of an answer that the client had not
	// acknowledged; absent if unknown.
	Unacknowledged *float64 `json:"unacknowledged,omitempty"`
	// Stacks says where goroutines were during slow and median calls; absent if unknown.
	Stacks *CallStacks `json:"call_stacks,omitempty"`
}

// CallStacks divides the slowest calls of a trial, and the calls around the median, by stage and call
// stack of Go. The times of a call add up to the call.
type CallStacks struct {
	Functions []string `json:"functions"` // names of stages and functions; Stacks holds indices into this list
	// Stacks holds the indices of a stage and of the functions of a call stack, the outermost first. In
	// place of the functions, there may be none if they are unknown, or OtherStacks.
	Stacks [][]int `json:"stacks"`
	// Slow holds the times of each slow call, the slowest call first. There are more calls than the
	// slow calls of a cell, because these are chosen from all its passes.
	Slow [][]StackTime `json:"slow"`
	// Median holds the sums over the calls between P40 and P60.
	Median []StackTime `json:"median"`
}

// OtherStacks replaces the functions of rare call stacks.
const OtherStacks = "(other)"

// A StackTime is the time with one call stack.
type StackTime struct {
	Stack int   `json:"stack"` // index into CallStacks.Stacks
	NS    int64 `json:"ns"`
}

// Names returns the names of a stack's stage and functions, the outermost first.
func (c *CallStacks) Names(stack int) []string {
	return lists.Map(c.Stacks[stack], func(function int) string { return c.Functions[function] })
}

func (c *CallStacks) check() error {
	for _, stack := range c.Stacks {
		if len(stack) == 0 {
			return errors.New("a call stack of slow and median calls has no stage")
		}
		for _, function := range stack {
			if function < 0 || function >= len(c.Functions) {
				return fmt.Errorf("a call stack of slow and median calls refers to function %d, but the record lists %d functions", function, len(c.Functions))
			}
		}
	}
	for _, times := range append(slices.Clip(c.Slow), c.Median) {
		for _, one := range times {
			if one.Stack < 0 || one.Stack >= len(c.Stacks) {
				return fmt.Errorf("a slow or median call refers to call stack %d, but the record lists %d call stacks", one.Stack, len(c.Stacks))
			}
		}
	}
	return nil
}

// A cell's slow calls are the slowest 1 %, but at least 10.
const (
	SlowShare      = 0.01
	LeastSlowCalls = 10
)

const (
	// The median calls are those between these quantiles.
	medianFrom, medianTo = 0.4, 0.6
)

// BySpeed returns the indexes of the calls, the fastest first.
func (l *Life) BySpeed() []int {
	times := lists.Map(l.Calls, func(stages []int64) (sum int64) {
		for _, ns := range stages {
			sum += ns
		}
		return sum
	})
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(a, b)) })
	return order
}

// MedianCalls returns the calls between P40 and P60 from calls in the order of their speed.
func MedianCalls(bySpeed []int) []int {
	n := float64(len(bySpeed))
	return bySpeed[int(medianFrom*n):int(math.Ceil(medianTo*n))]
}

// MostSlowCalls returns the calls that may be slow calls of a cell, the slowest first, from a pass's
// calls in the order of their speed.
func MostSlowCalls(bySpeed []int) []int {
	n := len(bySpeed)
	slow := slices.Clone(bySpeed[n-min(n, max(LeastSlowCalls, int(math.Ceil(SlowShare*float64(n))))):])
	slices.Reverse(slow)
	return slow
}
