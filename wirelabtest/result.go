package wirelabtest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report"
)

// A Result holds what Compare measured.
type Result struct {
	// Stacks are in the order of the option Stacks.
	Stacks []Stack
	// Comparisons hold every two stacks, figure by figure.
	Comparisons []Comparison
	// Answer says in a few sentences which stack to choose, and what to do if that is open.
	Answer []string
	// Warnings say what may make the figures wrong or wide.
	Warnings []string
	// Gates hold the outcome of each condition of FailIf over each stack.
	Gates []Gate
	// Directory is the run's directory; empty without SaveTo.
	Directory string

	text     string   // the table and the answer
	failures []string // what fails the test
}

// A Stack holds the figures of one stack.
type Stack struct {
	Name           string
	Mean, P50, P99 Time
	Throughput     Number // answers per second
	Calls, Failed  int64  // measured calls, and those of them that failed
	Repeats, Valid int    // repeats, and those of them with times that can be compared
	// Refused says why the times cannot be believed as such, although they can perhaps be compared
	// with the other stacks, which were disturbed alike. It is empty if they can be believed.
	Refused []string
}

// A Time is a duration with its 95 % interval. Value is 0 if it was not measured; Low and High are 0 if
// there is no interval.
type Time struct{ Value, Low, High time.Duration }

// A Number is a number with its 95 % interval, as Time is for durations.
type Number struct{ Value, Low, High float64 }

// A Verdict says how the first of two stacks compares with the second.
type Verdict string

// The verdicts. More and Less are for the figure cpu, where neither is always better.
const (
	Faster     = Verdict(compare.Faster)
	Slower     = Verdict(compare.Slower)
	More       = Verdict(compare.More)
	Less       = Verdict(compare.Less)
	Equivalent = Verdict(compare.Equivalent)
	Undecided  = Verdict(compare.Undecided)
)

// A Comparison compares two stacks by one figure.
type Comparison struct {
	A, B    string
	Figure  string  // mean, p99, throughput, or cpu (CPU time per call of both ends)
	Ratio   Number  // A's figure divided by B's
	Verdict Verdict // on A
	Margin  float64 // the stacks differ at most by this share, with confidence; 0 if they may differ by more than 10 %
}

// A Gate is the outcome of a condition over one stack.
type Gate struct {
	Condition, Stack string
	Outcome          string // kept, breached, or cannot tell
	Why              string // why it cannot tell, and what to do; else empty
}

// Stack returns the figures of the stack with a name, as it was given to Stacks.
func (r *Result) Stack(name string) (Stack, bool) {
	for _, s := range r.Stacks {
		if s.Name == name {
			return s, true
		}
	}
	return Stack{}, false
}

// Between returns the comparison of stack a with stack b by a figure. It is not known if a stack has
// too few repeats with this figure.
func (r *Result) Between(a, b, figure string) (_ Comparison, known bool) {
	for _, c := range r.Comparisons {
		switch {
		case c.Figure != figure:
		case c.A == a && c.B == b:
			return c, true
		case c.A == b && c.B == a:
			return c.opposite(), true
		}
	}
	return Comparison{}, false
}

func (c Comparison) opposite() Comparison {
	inverse := Number{Value: 1 / c.Ratio.Value}
	if c.Ratio.Low > 0 {
		inverse.Low, inverse.High = 1/c.Ratio.High, 1/c.Ratio.Low
	}
	return Comparison{A: c.B, B: c.A, Figure: c.Figure, Ratio: inverse, Verdict: Verdict(compare.Verdict(c.Verdict).Opposite()), Margin: c.Margin}
}

// failuresOf says what fails the test: conditions that are not kept, and stacks without a valid
// repeat, unless other programs are the only reason.
func failuresOf(seen *report.Run) (failures []string) {
	failed := map[string]bool{} // stacks whose own fault explains each gate that cannot tell
	for i := range seen.Summary.Cells {
		c := &seen.Summary.Cells[i]
		if !c.IsValid() && c.Spoiled == 0 {
			failed[c.Key] = true
			failures = append(failures, fmt.Sprintf("%s has no valid repeat: %s", c.Variant, firstLines(strings.Join(reasons(c), "; "))))
		}
	}
	for _, f := range seen.Gates {
		if f.Outcome != analysis.GateKept && !f.Passes && !(f.Outcome == analysis.GateOpen && failed[f.Cell]) {
			failures = append(failures, fmt.Sprintf("%s: %s", f.Outcome, seen.GateRun().DescribeGate(f)))
		}
	}
	return failures
}

// maxReasonLines limits the lines of a reason. A panic's first lines name its function.
const maxReasonLines = 6

func firstLines(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[:min(len(lines), maxReasonLines)], "\n")
}

// reasons returns why the times of a cell are refused.
func reasons(c *matrix.Cell) (all []string) {
	if c.Failure != "" {
		all = append(all, c.Failure)
	}
	for _, f := range c.Findings {
		if f.Level == record.Invalid {
			all = append(all, f.Name+": "+f.Detail)
		}
	}
	return all
}

func newResult(seen *report.Run) *Result {
	s := seen.Summary
	r := &Result{Answer: seen.Answer, Warnings: s.Warnings, Directory: seen.Directory}
	for i := range s.Cells {
		c := &s.Cells[i]
		times := c.ResponseTimes()
		one := Stack{
			Name: c.Variant, Calls: c.Requests, Failed: c.Errors, Repeats: c.Trials, Valid: c.Valid,
			Mean: timeOf(times.Mean), P50: timeOf(times.P50), P99: timeOf(times.P99), Throughput: numberOf(c.Throughput),
		}
		if c.RefusesTimes() {
			one.Refused = reasons(c)
		}
		r.Stacks = append(r.Stacks, one)
	}
	for _, c := range s.Comparisons {
		r.Comparisons = append(r.Comparisons, Comparison{
			A: c.A, B: c.B, Figure: c.Metric, Ratio: numberOf(c.Ratio), Verdict: Verdict(c.Verdict), Margin: c.Margin,
		})
	}
	for i, f := range seen.Gates {
		r.Gates = append(r.Gates, Gate{Condition: f.Gate, Stack: stackOf(s, seen.Gates[i].Cell), Outcome: string(f.Outcome), Why: f.Why})
	}
	return r
}

// stackOf returns the variant of the cell with a key.
func stackOf(s *analysis.Summary, key string) string {
	for _, c := range s.Cells {
		if c.Key == key {
			return c.Variant
		}
	}
	return key
}

// timeOf converts a figure in microseconds.
func timeOf(f matrix.Figure) Time {
	n := numberOf(f)
	us := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	return Time{us(n.Value), us(n.Low), us(n.High)}
}

func numberOf(f matrix.Figure) (n Number) {
	if !math.IsNaN(f.Value) {
		n.Value = f.Value
	}
	if f.Interval != nil {
		n.Low, n.High = f.Interval.Low, f.Interval.High
	}
	return n
}

// reportMetrics reports the figures of a benchmark: of each stack its times and its throughput, unless
// they are refused, and of all but the first stack the ratio to the first.
func (r *Result) reportMetrics(b *testing.B) {
	b.ReportMetric(0, "ns/op") // the time of the whole comparison says nothing
	for _, s := range r.Stacks {
		if c, known := r.Between(s.Name, r.Stacks[0].Name, matrix.Mean); known {
			b.ReportMetric(c.Ratio.Value, s.Name+"/"+r.Stacks[0].Name)
		}
		if len(s.Refused) > 0 {
			continue
		}
		for _, figure := range []struct {
			name  string
			value float64
		}{
			{"mean-ns", float64(s.Mean.Value)}, {"p50-ns", float64(s.P50.Value)}, {"p99-ns", float64(s.P99.Value)}, {"calls/s", s.Throughput.Value},
		} {
			if figure.value > 0 {
				b.ReportMetric(figure.value, s.Name+"-"+figure.name)
			}
		}
	}
}
