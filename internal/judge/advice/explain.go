package advice

import (
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
)

// Explain says where the time of a cell goes, or the difference between two: its calls'
// time, their CPU time, and their system calls. It says no more than was seen.
func Explain(e *insight.Explanation) []string {
	return slices.Concat(stages(e), cpuTimes(e), systemCalls(e))
}

// why explains the difference that a run's probes were most likely asked for.
func why(s *analysis.Summary) []string {
	if len(s.Insights) == 0 {
		return nil
	}
	return Explain(insight.Explain(insight.UsualPair(s.Insights)))
}

// stages explains the time of a call.
func stages(e *insight.Explanation) []string {
	if len(e.Stages) == 0 {
		return nil
	}
	s := e.Stages[0]
	if e.Against == nil {
		return []string{fmt.Sprintf("A call over %s takes %s%s: most is %s.",
			e.Of.Variant, words.Micros(s.Whole.B), condition(e.Of), largestParts(s, s.Whole.B))}
	}
	b, a := namesApart(e)
	more, difference := "longer", s.Whole.Difference()
	if difference < 0 {
		more = "shorter"
	}
	return []string{fmt.Sprintf("A call %s takes %s %s than %s%s (%s times): most of it is %s.",
		b, words.Micros(math.Abs(difference)), more, a, sharedCondition(e),
		units.Number(s.Whole.B/s.Whole.A), largestParts(s, difference))}
}

// namesApart names two cells by what differs between them: mostly their variants.
func namesApart(e *insight.Explanation) (of, against string) {
	both := func(format string, value func(*insight.Insight) any) (string, string) {
		return fmt.Sprintf(format, value(e.Of)), fmt.Sprintf(format, value(e.Against))
	}
	switch a, b := e.Against, e.Of; {
	case a.Variant != b.Variant:
		return both("over %s", func(i *insight.Insight) any { return i.Variant })
	case a.Workload != b.Workload:
		return both("of %s", func(i *insight.Insight) any { return i.Workload })
	case a.Payload != b.Payload:
		return both("of %s", func(i *insight.Insight) any { return words.PayloadText(i.Payload) })
	case a.Clients != b.Clients:
		return both("with %s", func(i *insight.Insight) any { return words.Clients(i.Clients) })
	}
	return both("in %s", func(i *insight.Insight) any { return i.Part })
}

// sharedCondition returns the condition if both cells have the same.
func sharedCondition(e *insight.Explanation) string {
	if condition(e.Of) != condition(e.Against) {
		return ""
	}
	return condition(e.Of)
}

// condition names the place of a cell, as far as two cells may share it.
func condition(i *insight.Insight) string {
	text := ""
	if i.Payload != (record.Payload{}) {
		text = " at " + words.PayloadText(i.Payload)
	}
	return text + " with " + words.Clients(i.Clients)
}

// cpuTimes explains the CPU time of a call at both ends.
func cpuTimes(e *insight.Explanation) []string {
	var clauses []string
	for _, cpu := range e.CPU {
		whole := cpu.Whole
		if e.Against == nil {
			clauses = append(clauses, fmt.Sprintf("%s on the %s, most of it %s", words.Micros(whole.B), cpu.End, largestParts(cpu, whole.B)))
			continue
		}
		more := "more"
		if whole.Difference() < 0 {
			more = "less"
		}
		clauses = append(clauses, fmt.Sprintf("%s %s on the %s, most of it %s",
			words.Micros(math.Abs(whole.Difference())), more, cpu.End, largestParts(cpu, whole.Difference())))
	}
	return ofCall(e, "CPU time", clauses)
}

// ofCall puts clauses about one cell, or about one against the other, into a sentence.
func ofCall(e *insight.Explanation, what string, clauses []string) []string {
	if e.Against == nil {
		return words.Sentence(clauses, what+" of a call over %s: %s.", e.Of.Variant)
	}
	b, a := namesApart(e)
	return words.Sentence(clauses, what+" of a call %s, against one %s: %s.", b, a)
}

// largestParts names those that have half of a difference together, three at most. What may be
// chance is not named.
func largestParts(e insight.Explained, difference float64) string {
	var named []string
	explained := 0.0
	for _, part := range e.Parts {
		if len(named) == words.ShownItems || explained >= difference/2 && len(named) > 0 && difference > 0 {
			break
		}
		if !part.IsClear() || math.Signbit(part.Difference()) != math.Signbit(difference) {
			continue
		}
		explained += part.Difference()
		named = append(named, fmt.Sprintf("%s (%s)", part.Name, words.Micros(math.Abs(part.Difference()))))
	}
	if len(named) == 0 {
		return "in parts that may be chance"
	}
	return words.List(named)
}

// manyCalls is the least difference of system calls per call that is mentioned.
const manyCalls = 0.2

// systemCalls compares the system calls per call.
func systemCalls(e *insight.Explanation) []string {
	var clauses []string
	for _, c := range e.Syscalls {
		if len(clauses) == words.ShownItems || math.Abs(c.Difference()) < manyCalls {
			break
		}
		if e.Against == nil {
			clauses = append(clauses, fmt.Sprintf("%s %s on the %s", units.Number(c.B), c.Name, c.End))
		} else {
			clauses = append(clauses, fmt.Sprintf("%s %s on the %s, against %s", units.Number(c.B), c.Name, c.End, units.Number(c.A)))
		}
	}
	return ofCall(e, "System calls", clauses)
}
