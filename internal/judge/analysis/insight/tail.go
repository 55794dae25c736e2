package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Tail shows where the slow calls of a cell spend more time than its median calls. Both groups are
// chosen within each pass, so that a slow pass does not count as slow calls. Times are in
// microseconds per call.
type Tail struct {
	Calls       int     `json:"calls"`        // calls whose stages were separated
	SlowCalls   int     `json:"slow_calls"`   // the slowest 1 % of the calls, but at least 10
	MedianCalls int     `json:"median_calls"` // the calls between P40 and P60
	Slow        float64 `json:"slow_us"`      // mean time of a slow call
	Median      float64 `json:"median_us"`    // mean time of a median call
	// Stages are in the order of a call. Their times add up to Slow and Median, and their shares to 1.
	Stages []TailStage `json:"stages"`
	// Functions lists functions in which slow calls spend at least a tenth of the difference more than
	// median calls, the largest excess first; empty if the call stacks are unknown.
	Functions []TailFunction `json:"functions"`
	Causes    []Cause        `json:"causes"` // what the stages say about Slow minus Median, the largest share first
	// EveryCalls is the number of calls from one slow call to the next; null unless it is always
	// about the same.
	EveryCalls *int `json:"every_calls" jsonschema:"nullable"`
	// Every is the time from one slow call to the next; null unless it is always about the same, or if
	// EveryCalls is known.
	Every   *float64 `json:"every_us" jsonschema:"nullable"`
	Refused string   `json:"refused,omitempty"` // why slow and median calls cannot be compared; absent if they can

	errors float64 // half the width of a 95 % interval, in standard errors
}

// A TailStage compares one stage of slow calls with the same stage of median calls.
type TailStage struct {
	Name string `json:"name"`
	// Kind says where the time is spent.
	Kind string `json:"kind" jsonschema:"enum=user,enum=kernel,enum=waking,enum=scheduling,enum=waiting,enum=collector,enum=handler,enum=mixed"`
	// End is the end where the time is spent; empty means both ends.
	End string `json:"end" jsonschema:"enum=client,enum=server,enum="`

	Median   float64         `json:"median_us"`         // mean time in the median calls
	Slow     float64         `json:"slow_us"`           // mean time in the slow calls
	Excess   float64         `json:"excess_us"`         // Slow minus Median
	Share    float64         `json:"share_of_excess"`   // Excess divided by the sum of all stages' Excess
	Interval matrix.Interval `json:"interval"`          // of Share
	Variance float64         `json:"share_of_variance"` // covariance of the stage with the call's time, divided by the variance of the call's time
}

// A TailFunction is a function in which slow calls spend more time than median calls. A call stack counts
// for its innermost function that is not in Go's standard library.
type TailFunction struct {
	Function string  `json:"function"`
	Stage    string  `json:"stage"`
	Excess   float64 `json:"excess_us"` // mean time in the slow calls minus mean time in the median calls
}

const (
	leastTailCalls = 200
	tailConfidence = 0.95
)

// newTail compares the slow calls of all passes with the median calls. It returns nil without calls.
func newTail(passes []*record.Record) *Tail {
	stages, lives := livesOf(passes)
	t := &Tail{}
	if t.Calls = countCalls(lives); t.Calls == 0 {
		return nil
	}
	if t.Calls < leastTailCalls {
		t.Refused = fmt.Sprintf("only %d calls have known stages: measure at least %d (-n, --repeat)", t.Calls, leastTailCalls)
		return t
	}
	of := chooseCalls(lives)
	t.SlowCalls = of.slowCalls()
	for _, p := range of {
		t.MedianCalls += len(p.median.calls)
	}
	whole := of.excess()
	if whole.sum <= 0 {
		t.Refused = "all calls take the same time"
		return t
	}
	t.errors = stats.NewStudent(whole.freedom).Quantile((1 + tailConfidence) / 2)
	variance := of.varianceShares(len(stages))
	for i, name := range stages {
		s := TailStage{Name: name, Kind: kindOf(name), End: stageEnd(name), Variance: variance[i]}
		s.Slow, s.Median = of.means(i, t.SlowCalls)
		s.Excess = s.Slow - s.Median
		share, standardError := of.share([]int{i}, whole)
		half := t.errors * standardError
		s.Share, s.Interval = share, matrix.Interval{Low: share - half, High: share + half, Confidence: tailConfidence}
		t.Stages = append(t.Stages, s)
		t.Slow, t.Median = t.Slow+s.Slow, t.Median+s.Median
	}
	t.Causes = of.causes(stages, whole, t.Slow-t.Median)
	t.Functions = of.functions(leastExcessShare * (t.Slow - t.Median))
	t.EveryCalls, t.Every = of.period()
	return t
}

// Proves reports whether a cause's share is more than noise.
func (t *Tail) Proves(c Cause) bool { return c.Time > t.errors*c.Error }

// A tailPass holds the calls of one pass, and its slow and median calls.
type tailPass struct {
	life         *record.Life
	times        []float64 // of all calls, in microseconds
	slow, median callGroup
}

type tailPasses []tailPass

func countCalls(lives []*record.Life) (n int) {
	for _, life := range lives {
		n += len(life.Calls)
	}
	return n
}

// chooseCalls chooses the slow and the median calls of each pass.
func chooseCalls(lives []*record.Life) tailPasses {
	share := max(record.SlowShare, record.LeastSlowCalls/float64(countCalls(lives)))
	var all tailPasses
	before := 0
	for _, life := range lives {
		n := len(life.Calls)
		// Rounding the sums over the passes gives the right number of calls in total.
		slow := int(math.Round(share*float64(before+n))) - int(math.Round(share*float64(before)))
		before += n
		if slow == 0 {
			continue
		}
		p := tailPass{life: life, times: lists.Map(life.Calls, func(call []int64) float64 { return float64(sumOf(call)) / 1e3 })}
		order := life.BySpeed()
		p.slow, p.median = p.group(order[n-slow:]), p.group(record.MedianCalls(order))
		all = append(all, p)
	}
	return all
}

func (of tailPasses) slowCalls() (n int) {
	for _, p := range of {
		n += len(p.slow.calls)
	}
	return n
}

// A callGroup holds calls of one pass, with their mean time in all stages and in each.
type callGroup struct {
	calls  []int // indexes
	mean   float64
	stages []float64
}

func (p *tailPass) group(calls []int) callGroup {
	g := callGroup{calls: calls, stages: make([]float64, len(p.life.Stages))}
	for _, call := range calls {
		for i, ns := range p.life.Calls[call] {
			g.stages[i] += float64(ns)
		}
	}
	for i := range g.stages {
		g.stages[i] /= 1e3 * float64(len(calls))
	}
	g.mean = sumOf(g.stages)
	return g
}

// means returns the mean times of slow and median calls in a stage. Each pass has the weight of its
// slow calls.
func (of tailPasses) means(stage, slowCalls int) (slow, median float64) {
	for _, p := range of {
		weight := float64(len(p.slow.calls)) / float64(slowCalls)
		slow += weight * p.slow.stages[stage]
		median += weight * p.median.stages[stage]
	}
	return slow, median
}

// eachStack calls add with the mean times of slow and median calls in each call stack of each pass, in
// nanoseconds. The times of all call stacks add up to the times of the calls. It does nothing if a pass
// has no call stacks.
func (of tailPasses) eachStack(add func(names []string, slow, median float64)) {
	slowCalls := of.slowCalls()
	if slices.ContainsFunc(of, func(p tailPass) bool { return p.life.Stacks == nil || len(p.life.Stacks.Slow) < len(p.slow.calls) }) {
		return
	}
	for _, p := range of {
		stacks, weight := p.life.Stacks, float64(len(p.slow.calls))/float64(slowCalls)
		slow, median := make([]float64, len(stacks.Stacks)), make([]float64, len(stacks.Stacks))
		for _, call := range stacks.Slow[:len(p.slow.calls)] {
			for _, one := range call {
				slow[one.Stack] += float64(one.NS) / float64(slowCalls)
			}
		}
		for _, one := range stacks.Median {
			median[one.Stack] += weight * float64(one.NS) / float64(len(p.median.calls))
		}
		for i := range stacks.Stacks {
			add(stacks.Names(i), slow[i], median[i])
		}
	}
}

const (
	leastExcessShare = 0.1
	maxTailFunctions = 3
)

// functions returns the functions with at least an excess in microseconds.
func (of tailPasses) functions(least float64) []TailFunction {
	var all []TailFunction
	of.eachStack(func(names []string, slow, median float64) {
		for _, function := range slices.Backward(names[1:]) {
			if isOutsideStandardLibrary(function) {
				one := TailFunction{Function: function, Stage: names[0]}
				lists.FindOrAdd(&all, one, func(f TailFunction) bool { return f.Function == one.Function && f.Stage == one.Stage }).Excess += (slow - median) / 1e3
				return
			}
		}
	})
	all = slices.DeleteFunc(all, func(f TailFunction) bool { return f.Excess < least })
	slices.SortStableFunc(all, func(a, b TailFunction) int { return cmp.Compare(b.Excess, a.Excess) })
	return all[:min(len(all), maxTailFunctions)]
}

// isOutsideStandardLibrary reports whether a function is in package main, or in a module whose name begins with a domain.
func isOutsideStandardLibrary(function string) bool {
	first, _, inFolder := strings.Cut(function, "/")
	return strings.HasPrefix(function, "main.") || inFolder && strings.Contains(first, ".")
}

// A tailExcess is the time that the slow calls of all passes take longer than median calls.
type tailExcess struct {
	sum     float64
	values  float64 // number of independent values: passes or slow calls
	freedom float64 // degrees of freedom of an interval
}

// leastTailPasses is the least number of passes for intervals from the differences between passes.
const leastTailPasses = 3

func (of tailPasses) excess() (e tailExcess) {
	for _, p := range of {
		e.values += float64(len(p.slow.calls))
		e.sum += float64(len(p.slow.calls)) * (p.slow.mean - p.median.mean)
	}
	if e.freedom = e.values - float64(len(of)); len(of) >= leastTailPasses {
		e.values, e.freedom = float64(len(of)), float64(len(of)-1)
	}
	return e
}

// share returns the share of the excess that some stages have, with its standard error, by the delta
// method for a ratio of sums. With three passes or more, the passes are the independent values. With
// fewer, the slow calls are; the noise of the many median calls is small beside theirs.
func (of tailPasses) share(stages []int, whole tailExcess) (share, standardError float64) {
	excess := make([]float64, len(of))
	for pass, p := range of {
		for _, i := range stages {
			excess[pass] += float64(len(p.slow.calls)) * (p.slow.stages[i] - p.median.stages[i])
		}
	}
	share = sumOf(excess) / whole.sum
	variance := 0.0
	for pass, p := range of {
		if len(of) < leastTailPasses {
			variance += p.spread(stages, share)
			continue
		}
		rest := excess[pass] - share*float64(len(p.slow.calls))*(p.slow.mean-p.median.mean)
		variance += rest * rest
	}
	return share, math.Sqrt(variance*whole.values/whole.freedom) / whole.sum
}

// spread returns the sum over the slow calls of a squared difference: what some stages take more than
// their share of the call, minus its mean.
func (p *tailPass) spread(stages []int, share float64) (sum float64) {
	mean := -share * p.slow.mean
	for _, i := range stages {
		mean += p.slow.stages[i]
	}
	for _, call := range p.slow.calls {
		rest := -share*p.times[call] - mean
		for _, i := range stages {
			rest += float64(p.life.Calls[call][i]) / 1e3
		}
		sum += rest * rest
	}
	return sum
}

// varianceShares returns each stage's share of the variance of the call's time within passes:
// Var(time) is the sum of Cov(stage, time) over the stages.
func (of tailPasses) varianceShares(stages int) []float64 {
	shares := make([]float64, stages)
	for _, p := range of {
		mean := sumOf(p.times) / float64(len(p.times))
		for call, time := range p.times {
			for i, ns := range p.life.Calls[call] {
				// The stage's own mean cancels out, because the differences from the mean add up to 0.
				shares[i] += float64(ns) * (time - mean)
			}
		}
	}
	floats.Scale(1/sumOf(shares), shares)
	return shares
}

// leastCauseShare is the least share of the excess of a listed cause.
const leastCauseShare = 0.01

// causes adds up stages with the same cause. It joins the two ends if neither has more than twice the
// other's share.
func (of tailPasses) causes(stages []string, whole tailExcess, excess float64) []Cause {
	type group struct {
		Cause
		stages []int
	}
	var groups []group
	for i, name := range stages {
		kind, end, _ := kindOfStage(name)
		if kind == other {
			continue
		}
		same := lists.FindOrAdd(&groups, group{Cause: Cause{Kind: kind, End: end}}, func(g group) bool { return g.Kind == kind && g.End == end })
		same.stages = append(same.stages, i)
	}
	measure := func(g *group) {
		share, standardError := of.share(g.stages, whole)
		g.Share, g.Time, g.Error = share, share*excess, standardError*excess
	}
	for i := range groups {
		measure(&groups[i])
	}
	for i := range groups {
		a := &groups[i]
		for j := range groups[:i] {
			b := &groups[j]
			if a.Kind == b.Kind && min(a.Share, b.Share) >= max(a.Share, b.Share)/2 && min(a.Share, b.Share) > 0 {
				b.End, b.stages, a.stages, a.Share = "", slices.Concat(b.stages, a.stages), nil, 0
				measure(b)
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return g.Share < leastCauseShare })
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.Share, a.Share) })
	return lists.Map(groups, func(g group) Cause { return g.Cause })
}
