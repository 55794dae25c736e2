package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fastest says which variant has the lowest mean response time, with few clients
// and with many.
func fastest(p *part) []string {
	if len(p.variants) < 2 {
		return singleVariant(p)
	}
	var sentences []string
	for _, n := range p.clientEnds() {
		var clauses []string
		for _, group := range p.sizeGroups(matrix.Mean, n) {
			clauses = append(clauses, p.leader(group))
		}
		sentences = append(sentences, sentence(clauses, "With %s %s.", clients(n))...)
	}
	return sentences
}

// leader says who leads at a group of sizes, with the figures of the first and
// the last of them.
func (p *part) leader(group []ranking) string {
	first := group[0]
	text := first.best + " has the lowest mean"
	switch {
	case len(first.rivals) == 0:
		text = "only " + first.best + " has a valid figure"
	case first.isSure():
		text = first.best + " is the fastest"
	}
	text += p.sizesOf(group)
	if len(first.rivals) > 0 {
		text += first.doubt()
	}
	text += ": " + p.figures(first, len(group) > 1)
	if len(group) > 1 {
		text += "; " + strings.TrimPrefix(p.figures(group[len(group)-1], true), "a call of ")
	}
	return text
}

// isSure reports whether the best one is best beyond doubt.
func (r ranking) isSure() bool { return !r.tooFew && len(r.equal)+len(r.unsure) == 0 }

// doubt says what keeps the best one from being best beyond doubt.
func (r ranking) doubt() string {
	if r.tooFew {
		return ", in too few trials to be sure"
	}
	text := ""
	switch len(r.equal) {
	case 0:
	case 1:
		text = ", which " + r.equal[0] + " equals within 5 %"
	default:
		text = ", which " + list(r.equal) + " equal within 5 %"
	}
	if len(r.unsure) > 0 {
		text += ", though not beyond doubt against " + joined(r.unsure, "or")
	}
	return text
}

// shownRivals bounds how many others a sentence has figures of.
const shownRivals = 3

// figures are the best one's time and how many times as long the others take.
func (p *part) figures(r ranking, withSize bool) string {
	text := "a call takes "
	if withSize {
		text = "a call of " + payloadText(r.at.size) + " takes "
	}
	text += micros(r.value.Value)
	for i, other := range r.rivals[:min(len(r.rivals), shownRivals)] {
		text += ", " + other.variant + " " + between(other.times, number)
		if i == 0 {
			text += " times as long"
		}
	}
	return text
}

// singleVariant describes a variant that has nothing beside it.
func singleVariant(p *part) []string {
	if p.cells[0].IsService() {
		return servedWith(p)
	}
	var clauses []string
	for _, size := range p.sizeEnds() {
		for _, n := range p.clientEnds() {
			if c := p.cell(p.variants[0], point{size, n}); c != nil {
				clauses = append(clauses, fmt.Sprintf("%s with %s %s",
					payloadText(size), clients(n), between(c.ResponseTimes().Mean, micros)))
			}
		}
	}
	opening := "There is nothing to compare " + p.variants[0] + " with"
	if slices.ContainsFunc(p.cells, func(c *matrix.Cell) bool { return c.Variant != p.variants[0] }) {
		opening = "Only " + p.variants[0] + " has valid trials"
	}
	return []string{fmt.Sprintf("%s; in the mean, a call takes: %s.", opening, strings.Join(clauses, "; "))}
}

// highestThroughput says which variant answers the most requests a second, each at
// its best concurrency. The intervals tell whether that is beyond doubt, since the
// comparisons are of equal concurrencies.
func highestThroughput(p *part) []string {
	if !p.closed() || len(p.variants) < 2 || len(p.clients) < 2 {
		return nil
	}
	var clauses []string
	for _, size := range p.sizeEnds() {
		peaks := p.peaks(size)
		if len(peaks) < 2 {
			continue
		}
		first, rest := peaks[0], peaks[1:]
		others := make([]string, len(rest))
		for i, c := range rest {
			others[i] = fmt.Sprintf("%s's %s with %d", c.Variant, rate(c.Throughput.Value), c.Clients)
		}
		clause := fmt.Sprintf("%s%s's, %s with %s, against %s",
			atSize(size), first.Variant, between(first.Throughput, rate), clients(first.Clients), list(others))
		if !apart(first.Throughput, rest[0].Throughput) {
			clause += fmt.Sprintf(" (its lead over %s is not beyond doubt)", rest[0].Variant)
		}
		clauses = append(clauses, clause)
	}
	return sentence(clauses, "The highest throughput is %s.")
}

// peaks are the cells in which each variant is at its best, the highest first.
func (p *part) peaks(size record.Payload) []*matrix.Cell {
	var peaks []*matrix.Cell
	for _, variant := range p.variants {
		var peak *matrix.Cell
		for _, n := range p.clients {
			if c := p.cell(variant, point{size, n}); c != nil && (peak == nil || c.Throughput.Value > peak.Throughput.Value) {
				peak = c
			}
		}
		if peak != nil {
			peaks = append(peaks, peak)
		}
	}
	slices.SortStableFunc(peaks, func(a, b *matrix.Cell) int { return cmp.Compare(b.Throughput.Value, a.Throughput.Value) })
	return peaks
}

func apart(higher, lower matrix.Figure) bool {
	return higher.Interval != nil && lower.Interval != nil && higher.Interval.Low > lower.Interval.High
}

// tail says which variant has the best tail with the most clients: by the lowest
// P99, since P99/P50 is also low for a variant that is always slow.
func tail(p *part) []string {
	if len(p.variants) < 2 {
		return nil
	}
	var clauses []string
	for _, size := range p.sizeEnds() {
		lowest, ok := p.rank(matrix.P99, point{size, p.mostClients()})
		if ok && len(lowest.rivals) > 0 {
			clauses = append(clauses, atSize(size)+p.tailAt(lowest))
		}
	}
	if len(clauses) == 0 {
		return p.tooFewForTail()
	}
	return sentence(clauses, "The tail with %s: %s.", clients(p.mostClients()))
}

// tooFewForTail says why no tails were compared, where that is for want of requests.
func (p *part) tooFewForTail() []string {
	fewer := slices.ContainsFunc(p.cells, func(c *matrix.Cell) bool {
		return c.IsValid() && c.Clients == p.mostClients() && c.Requests/int64(c.Valid) < matrix.P99Requests
	})
	if !fewer || p.searched() {
		return nil
	}
	return []string{fmt.Sprintf("Whose tail is shortest with %s is not told: P99 takes %s requests in each trial, and some have fewer.",
		clients(p.mostClients()), units.Thousands(matrix.P99Requests))}
}

func (p *part) tailAt(lowest ranking) string {
	low := p.cell(lowest.best, lowest.at)
	steady := p.steadiest(low, lowest.at)
	holds := "is lowest"
	if lowest.isSure() && steady == low {
		holds = "holds it best"
	}
	text := fmt.Sprintf("%s %s with a P99 of %s, %s times its P50%s", lowest.best, holds, between(lowest.value, micros), number(low.P99OverP50.Value), lowest.doubt())
	for _, s := range low.ResponseTimes().Stalls {
		if s.Percentile == matrix.P99 {
			text += fmt.Sprintf(" (%d of %d trials stalled, for up to %s, and P99 of the others is %s)", len(s.Repeats), s.Trials, micros(s.Longest), micros(s.Without))
		}
	}
	if steady == low {
		return text
	}
	return text + fmt.Sprintf(" (%s has the lowest P99/P50, %s, but over a P50 of %s, which makes its P99 %s: steady, not short)",
		steady.Variant, number(steady.P99OverP50.Value), micros(steady.ResponseTimes().P50.Value), micros(steady.ResponseTimes().P99.Value))
}

// steadiest is the cell with the lowest P99/P50, or low, the cell with the lowest
// P99, if no other is lower by more than 5 %.
func (p *part) steadiest(low *matrix.Cell, at point) *matrix.Cell {
	steadiest := low
	for _, c := range p.cellsAt(at) {
		if c.P99OverP50.Value < 0.95*low.P99OverP50.Value && c.P99OverP50.Value < steadiest.P99OverP50.Value {
			steadiest = c
		}
	}
	return steadiest
}

// choice is the rule for choosing that the measurements support: with the fewest
// and with the most clients, the fewest ranges of sizes with a variant that no
// measurement speaks against. P99 and CPU time are looked at with the most clients,
// for which a system would be sized.
func choice(p *part) []string {
	if len(p.variants) < 2 {
		return nil
	}
	if !p.repeated() {
		return []string{"There are too few trials of each cell to choose by: what differs may be the machine. Three repeats give verdicts."}
	}
	if !slices.ContainsFunc(p.comparisons, isDecided) {
		return []string{fmt.Sprintf("No difference between %s is beyond doubt: choose by other merits.", list(p.variants))}
	}
	var rules, clauses []string
	for _, n := range p.clientEnds() {
		ranges := p.ranges(matrix.Mean, n)
		rule := "no mean is lowest beyond doubt"
		if !p.allCandidates(ranges) {
			rule = p.bySize(ranges)
		}
		rules = append(rules, rule)
		clauses = append(clauses, "with "+clients(n)+" "+rule)
	}
	if len(rules) == 2 && rules[0] == rules[1] {
		clauses = []string{fmt.Sprintf("%s, with %s as with %d", rules[0], clients(p.clients[0]), p.mostClients())}
	}
	for _, by := range []struct{ metric, name string }{{matrix.P99, "P99"}, {matrix.CPU, "CPU time"}} {
		ranges := p.ranges(by.metric, p.mostClients())
		if len(ranges) == 0 {
			continue // not measured
		}
		if p.allCandidates(ranges) {
			clauses = append(clauses, fmt.Sprintf("no %s with %s is lowest beyond doubt", by.name, clients(p.mostClients())))
		} else {
			clauses = append(clauses, fmt.Sprintf("where %s with %s matters, %s", by.name, clients(p.mostClients()), p.bySize(ranges)))
		}
	}
	return sentence(clauses, "To choose: %s.")
}

// isDecided reports whether a difference is beyond doubt.
func isDecided(c *compare.Comparison) bool {
	return c.Verdict != compare.Undecided && c.Verdict != compare.Equivalent
}

// sizeRange is sizes that follow each other and have candidates in common.
type sizeRange struct {
	sizes      []record.Payload
	candidates []string
}

func (p *part) ranges(metric string, n int) []sizeRange {
	var all []sizeRange
	for _, size := range p.sizes {
		r, ok := p.rank(metric, point{size, n})
		if !ok || len(r.rivals) == 0 {
			continue
		}
		candidates := r.candidates()
		if len(all) > 0 {
			last := &all[len(all)-1]
			common := slices.DeleteFunc(slices.Clone(last.candidates), func(v string) bool { return !slices.Contains(candidates, v) })
			if len(common) > 0 {
				last.sizes, last.candidates = append(last.sizes, size), common
				continue
			}
		}
		all = append(all, sizeRange{[]record.Payload{size}, candidates})
	}
	return all
}

// allCandidates reports whether every variant is a candidate everywhere.
func (p *part) allCandidates(ranges []sizeRange) bool {
	return !slices.ContainsFunc(ranges, func(s sizeRange) bool { return len(s.candidates) < len(p.variants) })
}

func (p *part) bySize(ranges []sizeRange) string {
	texts := make([]string, len(ranges))
	for i, s := range ranges {
		what := joined(s.candidates, "or")
		if len(s.candidates) == len(p.variants) {
			what = "any"
		}
		switch {
		case len(ranges) == 1:
			texts[i] = what
		case !p.sizesAscend():
			texts[i] = what + " at " + list(sizeNames(s.sizes))
		case i == 0:
			texts[i] = fmt.Sprintf("%s up to %s", what, payloadText(s.sizes[len(s.sizes)-1]))
		case i == len(ranges)-1:
			texts[i] = fmt.Sprintf("%s from %s", what, payloadText(s.sizes[0]))
		default:
			texts[i] = fmt.Sprintf("%s from %s to %s", what, payloadText(s.sizes[0]), payloadText(s.sizes[len(s.sizes)-1]))
		}
	}
	return strings.Join(texts, ", ")
}
