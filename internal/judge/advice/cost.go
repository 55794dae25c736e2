package advice

import (
	"fmt"
	"math"
	"path"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// cost returns the CPU time per request at both ends with the most clients, for sizing a system.
func cost(p *rank.Part) []string {
	var clauses []string
	for _, size := range p.SizeEnds() {
		at := rank.Point{Size: size, Clients: p.MostClients()}
		cells := rank.Keep(p.CellsAt(at), func(c *matrix.Cell) bool { return c.BothCPU() != nil })
		if len(cells) > 0 {
			texts := lists.Map(cells, func(c *matrix.Cell) string { return c.Variant + " " + words.BothCPUs(c) })
			clauses = append(clauses, words.AtSize(size)+words.List(texts)+cheapest(p, at))
		}
	}
	return words.Sentence(clauses, "CPU time per request, client + server, with %s: %s.", words.Clients(p.MostClients()))
}

// cheapest names the variant with the least CPU time per request, if it has rivals.
func cheapest(p *rank.Part, at rank.Point) string {
	least, ok := p.Rank(matrix.CPU, at)
	switch {
	case !ok || len(least.Rivals) == 0:
		return ""
	case least.IsSure():
		return ", so " + least.Best + " costs least"
	}
	return "; " + least.Best + " costs least" + words.DoubtOf(least)
}

// bulk returns the server's CPU cost per gigabyte for a part whose calls carry bulk. In a closed
// loop it adds the gigabytes per second; otherwise the schedule sets the rate, and it adds the
// cores in use.
func bulk(p *rank.Part) []string {
	if len(p.Sizes) == 0 || len(p.Clients) == 0 {
		return nil
	}
	var texts []string
	for _, c := range p.CellsAt(rank.Point{Size: p.Sizes[0], Clients: p.Clients[0]}) {
		if c.Bulk == nil || c.Bulk.ServerCPU == nil {
			continue
		}
		text := c.Variant + " " + words.Between(*c.Bulk.ServerCPU, words.Seconds)
		if p.Closed() {
			text += " at " + units.Number(c.Bulk.Rate.Value) + " GB/s"
		} else if c.Server.Cores != nil {
			text += ", " + units.Number(c.Server.Cores.Value) + " cores"
		}
		texts = append(texts, text)
	}
	return words.Sentence(texts, "CPU time of the server for a GB in %s, %swith %s: %s.", p.Name, words.AtSmallest(p), words.Clients(p.Clients[0]))
}

// bound returns the limit of a closed loop with the most clients: CPU or waiting. If calls mostly
// sleep, throughput is the number of clients divided by the sleep, and shows nothing about the
// wire.
func bound(p *rank.Part) []string {
	if len(p.Sizes) == 0 || !p.Closed() {
		return nil
	}
	cells := p.CellsAt(rank.Point{Size: p.Sizes[0], Clients: p.MostClients()})
	by := byBound(cells)
	var clauses []string
	if waiting := by[matrix.ByWaiting]; len(waiting) > 0 {
		busiest := 0.0
		for _, c := range waiting {
			busiest = max(busiest, c.Client.Busy.Value, c.Server.Busy.Value)
		}
		least, longest := meanSpan(waiting)
		waits := words.Micros(least)
		if units.Number(least) != units.Number(longest) {
			waits += " to " + words.Micros(longest)
		}
		clauses = append(clauses, fmt.Sprintf("waiting for %s, whose ends are at most %s busy: throughput is the number of clients divided by the %s that a call waits; the wire may carry more",
			names(waiting, len(cells)), words.Share(busiest), waits))
	}
	if busy := by[matrix.ByServerCPU]; len(busy) > 0 {
		clauses = append(clauses, "the server's CPU for "+names(busy, len(cells)))
	}
	if busy := by[matrix.ByClientCPU]; len(busy) > 0 {
		clauses = append(clauses, "the client's CPU for "+names(busy, len(cells)))
	}
	return words.Sentence(clauses, "Limit %swith %s: %s.", words.AtSmallest(p), words.Clients(p.MostClients()))
}

func byBound(cells []*matrix.Cell) map[matrix.Bound][]*matrix.Cell {
	by := map[matrix.Bound][]*matrix.Cell{}
	for _, c := range cells {
		by[c.Bound] = append(by[c.Bound], c)
	}
	return by
}

// meanSpan returns the shortest and the longest mean time of the cells.
func meanSpan(cells []*matrix.Cell) (least, longest float64) {
	means := lists.Map(cells, func(c *matrix.Cell) float64 { return c.ResponseTimes().Mean.Value })
	return slices.Min(means), slices.Max(means)
}

// names lists the variants of the cells, or counts them if all are meant.
func names(cells []*matrix.Cell, all int) string {
	if len(cells) == all && all > words.ShownRivals {
		return fmt.Sprintf("all %d variants", all)
	}
	return words.List(lists.Map(cells, func(c *matrix.Cell) string { return c.Variant }))
}

// allocations returns the bytes that a call allocates at the end that allocates more, with the
// main function.
func allocations(s *analysis.Summary) []string {
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

// Explain describes the parts of a cell's time, or of the difference between two cells, as far as
// probes recorded them.
func Explain(e *insight.Explanation) []string {
	return slices.Concat(stages(e), cpuTimes(e), systemCalls(e))
}

// why explains the difference between the two cells that the probes were most likely meant for.
func why(s *analysis.Summary) []string {
	if len(s.Insights) == 0 {
		return nil
	}
	return Explain(insight.Explain(insight.UsualPair(s.Insights)))
}

// stages explains the stages of a call's time.
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
	shared := condition(e.Of)
	if shared != condition(e.Against) {
		shared = ""
	}
	return []string{fmt.Sprintf("A call %s takes %s %s than %s%s (%s times): most of it is %s.",
		b, words.Micros(math.Abs(difference)), more, a, shared,
		units.Number(s.Whole.B/s.Whole.A), largestParts(s, difference))}
}

// namesApart names two cells by their difference, which is mostly the variant.
func namesApart(e *insight.Explanation) (of, against string) {
	for _, named := range []func(*insight.Insight) string{
		func(i *insight.Insight) string { return "over " + i.Variant },
		func(i *insight.Insight) string { return "of " + i.Workload },
		func(i *insight.Insight) string { return "of " + words.PayloadText(i.Payload) },
		func(i *insight.Insight) string { return "with " + words.Clients(i.Clients) },
	} {
		if of, against = named(e.Of), named(e.Against); of != against {
			return of, against
		}
	}
	return "in " + e.Of.Part, "in " + e.Against.Part
}

// condition names the place of a cell without the parts that both cells share.
func condition(i *insight.Insight) string {
	return " " + words.AtSize(i.Payload) + "with " + words.Clients(i.Clients)
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

// ofCall makes a sentence of clauses about one cell, or about one cell against another.
func ofCall(e *insight.Explanation, what string, clauses []string) []string {
	if e.Against == nil {
		return words.Sentence(clauses, what+" of a call over %s: %s.", e.Of.Variant)
	}
	b, a := namesApart(e)
	return words.Sentence(clauses, what+" of a call %s, against one %s: %s.", b, a)
}

// largestParts names at most three parts that explain half of a difference, and ignores noise.
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
		return "in parts that may be noise"
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
