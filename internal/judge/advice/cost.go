package advice

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// bulkCostSentence returns the server's CPU cost per gigabyte for a part with large messages. For a
// closed loop it adds the gigabytes per second. For other loads the schedule sets the rate, so it
// adds the number of busy CPUs.
func bulkCostSentence(p *rank.Part) []string {
	if len(p.Sizes) == 0 || len(p.Clients) == 0 {
		return nil
	}
	var texts []string
	for _, c := range p.CellsAt(rank.Point{Size: p.Sizes[0], Clients: p.Clients[0]}) {
		if c.Bulk == nil || c.Bulk.ServerCPU == nil {
			continue
		}
		text := c.Variant + " " + words.WithInterval(*c.Bulk.ServerCPU, words.Seconds)
		if p.IsClosed() {
			text += " at " + units.Number(c.Bulk.Rate.Value) + " GB/s"
		} else if c.Server.Cores != nil {
			text += ", " + units.Number(c.Server.Cores.Value) + " cores"
		}
		texts = append(texts, text)
	}
	return words.Sentence(texts, "CPU time of the server per GB in %s, %swith %s: %s.", p.Name, words.SmallestSizeClause(p), words.Clients(p.Clients[0]))
}

// limitOfLoop says what limits a closed loop with the smallest messages and the most clients.
func limitOfLoop(s *analysis.Summary, p *rank.Part) []string {
	if len(p.Sizes) == 0 || !p.IsClosed() {
		return nil
	}
	where := words.SmallestSizeClause(p) + "with " + words.Clients(p.MostClients())
	return limitSentence(s, where, p.CellsAt(rank.Point{Size: p.Sizes[0], Clients: p.MostClients()}))
}

// limitSentence says what limits closed loops: CPU or waiting. If calls mostly sleep, throughput says
// nothing about the stack.
func limitSentence(s *analysis.Summary, where string, cells []*matrix.Cell) []string {
	var clauses []string
	waiting := "waiting"
	if !slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return !s.Declared.Workload(c.Workload).Has(scenario.SimulatedWorkRole) }) {
		waiting = "the simulated work"
	}
	for _, bound := range []struct {
		by   matrix.Bound
		name string
	}{{matrix.ByWaiting, waiting}, {matrix.ByServerCPU, "the server's CPU"}, {matrix.ByClientCPU, "the client's CPU"}} {
		limited := rank.Filter(cells, func(c *matrix.Cell) bool { return c.Bound == bound.by })
		if len(limited) == 0 {
			continue
		}
		names := words.FirstItems(lists.Map(limited, func(c *matrix.Cell) string { return words.DistinguishCell(c, cells) }), "%d more")
		if len(names) > words.MaxShownItems && len(limited) == len(cells) {
			names = []string{"all " + words.Count(len(cells), "cell")}
		}
		clause := " for " + words.List(names)
		if bound.by == matrix.ByWaiting {
			clause += ", so the number of clients sets the throughput, and the protocol may carry more"
		}
		clauses = append(clauses, bound.name+clause)
	}
	return words.Sentence(clauses, "Limit %s: %s.", where)
}

// allocationSentences writes the bytes per call that the client or the server allocates, whichever
// is more, and names the function that allocates most.
func allocationSentences(s *analysis.Summary) []string {
	var sentences []string
	for _, all := range lists.GroupBy(s.Allocations, func(a insight.Allocation) string { return a.Part }) {
		sums := map[string]float64{}
		for _, a := range all {
			sums[a.End] += a.Bytes
		}
		end := insight.ServerEnd
		if sums[insight.ClientEnd] > sums[end] {
			end = insight.ClientEnd
		}
		ofEnd := slices.DeleteFunc(slices.Clone(all), func(a insight.Allocation) bool { return a.End != end })
		texts := lists.Map(ofEnd, func(a insight.Allocation) string {
			text := fmt.Sprintf("%s %s in %s objects", a.Variant, words.Size(a.Bytes), units.Number(a.Objects))
			if len(a.Functions) > 0 {
				f := a.Functions[0]
				text += fmt.Sprintf(" (%s of the bytes by %s)", words.Percent(f.Bytes), path.Base(f.Function))
			}
			return text
		})
		sentences = append(sentences, words.Sentence(texts, "A call of %s allocates at the %s: %s.", all[0].Part, end)...)
	}
	return sentences
}

// Explain names the largest parts of a cell's time, or of the difference between two cells, from
// the readings of probes.
func Explain(e *insight.Explanation) []string {
	return slices.Concat(causeSentence(e), stageSentences(e), tailSentences(e), cpuTimeSentence(e), systemCallSentence(e), waitSentence(e), allocatedSentence(e))
}

// probeExplanation explains the difference between insight.DefaultPair's two cells.
func probeExplanation(s *analysis.Summary) []string {
	if len(s.Insights) == 0 {
		return nil
	}
	return Explain(insight.Explain(insight.DefaultPair(s.Insights)))
}

// stageSentences explains the stages of a call's time.
func stageSentences(e *insight.Explanation) []string {
	if len(e.Stages) == 0 {
		return nil
	}
	s, difference := e.Stages[0], e.Stages[0].Whole.Difference()
	measured, known := e.Measured.Difference()
	more := "longer"
	if difference < 0 {
		more = "shorter"
	}
	switch b, a := distinctNames(e); {
	case e.Against == nil && e.Measured.B != nil:
		return []string{fmt.Sprintf("By stage, most of a traced call's %s is %s.", words.Micros(s.Whole.B), largestParts(s, s.Whole.B))}
	case e.Against == nil:
		return []string{fmt.Sprintf("A traced call %s takes %s%s: most is %s.", b, words.Micros(s.Whole.B), sizeAndClients(e.Of), largestParts(s, s.Whole.B))}
	case !known:
		return []string{fmt.Sprintf("A traced call %s takes %s %s than %s: most of the difference is %s.", b, words.Micros(math.Abs(difference)), more, a, largestParts(s, difference))}
	case e.Measured.IsProven() && math.Signbit(measured) != math.Signbit(difference):
		return []string{"The stages of traced calls do not show this difference."}
	}
	return []string{fmt.Sprintf("By stage, traced calls are %s %s, most of it in %s.", words.Micros(math.Abs(difference)), more, largestParts(s, difference))}
}

// distinctNames names two cells by the property in which they differ, usually the variant.
func distinctNames(e *insight.Explanation) (of, against string) {
	if e.Against == nil {
		return overName(e.Of), ""
	}
	for _, named := range []func(*insight.Insight) string{
		func(i *insight.Insight) string { return "of the run " + i.Run },
		overName,
		func(i *insight.Insight) string { return "over " + cmp.Or(i.Link, "no link") },
		func(i *insight.Insight) string { return "of " + i.Workload },
		func(i *insight.Insight) string { return "of " + words.PayloadText(i.Payload) },
		func(i *insight.Insight) string { return "with " + words.Clients(i.Clients) },
	} {
		if of, against = named(e.Of), named(e.Against); of != against {
			return of, against
		}
	}
	if of, against = e.SettingsOfEach(); of != against {
		return "with " + of, "with " + against
	}
	return "in part " + e.Of.Part, "in part " + e.Against.Part
}

// overName names a cell by its variant, or a version of a service as base or head.
func overName(i *insight.Insight) string {
	if i.Cell().Version() != "" {
		return "of the " + i.Name()
	}
	return "over " + i.Name()
}

func sizeAndClients(i *insight.Insight) string {
	return " " + words.SizeClause(i.Payload) + "with " + words.Clients(i.Clients)
}

// cpuTimeSentence explains the CPU time of a call at both ends.
func cpuTimeSentence(e *insight.Explanation) []string {
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
	return callSentence(e, "CPU time", clauses)
}

// callSentence joins clauses about one cell, or about two compared cells, into a sentence.
func callSentence(e *insight.Explanation, what string, clauses []string) []string {
	if e.Against == nil {
		return words.Sentence(clauses, what+" of a call %s: %s.", overName(e.Of))
	}
	b, a := distinctNames(e)
	return words.Sentence(clauses, what+" of a call %s, against one %s: %s.", b, a)
}

// largestParts names at most three parts that explain half of a difference. It omits possible
// noise.
func largestParts(e insight.ExplainedFigure, difference float64) string {
	var named []string
	explained := 0.0
	for _, part := range e.Parts {
		if len(named) == words.MaxShownItems || explained >= difference/2 && len(named) > 0 && difference > 0 {
			break
		}
		if !part.IsClear() || math.Signbit(part.Difference()) != math.Signbit(difference) {
			continue
		}
		explained += part.Difference()
		named = append(named, fmt.Sprintf("%s (%s)", part.Name, words.Micros(math.Abs(part.Difference()))))
	}
	if len(named) == 0 {
		return "in parts that may be noise"
	}
	return words.List(named)
}

// minCallDifference is the smallest difference in system calls per call that a sentence names.
const minCallDifference = 0.2

func systemCallSentence(e *insight.Explanation) []string {
	var clauses []string
	all := slices.Clone(e.Syscalls)
	slices.SortStableFunc(all, func(a, b insight.Change) int {
		return cmp.Compare(math.Abs(b.Difference()), math.Abs(a.Difference()))
	})
	for _, c := range all {
		if len(clauses) == words.MaxShownItems || math.Abs(c.Difference()) < minCallDifference {
			break
		}
		if e.Against == nil {
			clauses = append(clauses, fmt.Sprintf("%s %s on the %s", units.Number(c.B), c.Name, c.End))
		} else {
			clauses = append(clauses, fmt.Sprintf("%s %s on the %s, against %s", units.Number(c.B), c.Name, c.End, units.Number(c.A)))
		}
	}
	return callSentence(e, "System calls", clauses)
}
