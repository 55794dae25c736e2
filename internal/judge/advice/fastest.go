package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fastest says which variant has the lowest mean response time, with few and with many clients.
func fastest(p *rank.Part) []string {
	if len(p.Variants) < 2 {
		return singleVariant(p)
	}
	var sentences []string
	for _, n := range p.ClientEnds() {
		clauses := lists.Map(p.SizeGroups(matrix.Mean, n), func(group []rank.Ranking) string { return leader(p, group) })
		sentences = append(sentences, words.Sentence(clauses, "With %s %s.", words.Clients(n))...)
	}
	return sentences
}

// leader says who leads at a group of sizes, with the figures of the first and the last.
func leader(p *rank.Part, group []rank.Ranking) string {
	first := group[0]
	text := first.Best + " has the lowest mean"
	switch {
	case len(first.Rivals) == 0:
		text = "only " + first.Best + " has a valid figure"
	case first.IsSure():
		text = first.Best + " is the fastest"
	}
	text += words.SizesOf(p, group)
	if len(first.Rivals) > 0 {
		text += words.DoubtOf(first)
	}
	text += ": " + figuresOf(first, len(group) > 1)
	if len(group) > 1 {
		text += "; " + strings.TrimPrefix(figuresOf(group[len(group)-1], true), "a call of ")
	}
	return text
}

// figuresOf gives the best variant's time and how many times as long the others take.
func figuresOf(r rank.Ranking, withSize bool) string {
	text := "a call takes "
	if withSize {
		text = "a call of " + words.PayloadText(r.At.Size) + " takes "
	}
	text += words.Micros(r.Value.Value)
	for i, other := range r.Rivals[:min(len(r.Rivals), words.ShownRivals)] {
		text += ", " + other.Variant + " " + words.Between(other.Times, units.Number)
		if i == 0 {
			text += " times as long"
		}
	}
	return text
}

// singleVariant describes a variant that has no rival.
func singleVariant(p *rank.Part) []string {
	if p.Cells[0].Kind().Alone {
		return servedWith(p)
	}
	var clauses []string
	for _, size := range p.SizeEnds() {
		for _, n := range p.ClientEnds() {
			if c := p.Cell(p.Variants[0], rank.Point{Size: size, Clients: n}); c != nil {
				clauses = append(clauses, fmt.Sprintf("%s with %s %s",
					words.PayloadText(size), words.Clients(n), words.Between(c.ResponseTimes().Mean, words.Micros)))
			}
		}
	}
	opening := "There is nothing to compare " + p.Variants[0] + " with"
	if slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool { return c.Variant != p.Variants[0] }) {
		opening = "Only " + p.Variants[0] + " has valid trials"
	}
	return []string{fmt.Sprintf("%s; in the mean, a call takes: %s.", opening, strings.Join(clauses, "; "))}
}

// highestThroughput says which variant answers the most requests per second, each at its best
// concurrency. The intervals show whether that is certain, because comparisons are of equal
// concurrencies.
func highestThroughput(p *rank.Part) []string {
	if !p.Closed() || len(p.Clients) < 2 {
		return nil
	}
	var clauses []string
	for _, size := range p.SizeEnds() {
		peaks := p.Peaks(size)
		if len(peaks) < 2 {
			continue
		}
		first, rest := peaks[0], peaks[1:]
		others := lists.Map(rest, func(c *matrix.Cell) string {
			return fmt.Sprintf("%s's %s with %d", c.Variant, words.Rate(c.Throughput.Value), c.Clients)
		})
		clause := fmt.Sprintf("%s%s's, %s with %s, against %s",
			words.AtSize(size), first.Variant, words.Between(first.Throughput, words.Rate), words.Clients(first.Clients), words.List(others))
		if !rank.Apart(first.Throughput, rest[0].Throughput) {
			clause += fmt.Sprintf(" (its lead over %s is not beyond doubt)", rest[0].Variant)
		}
		clauses = append(clauses, clause)
	}
	return words.Sentence(clauses, "The highest throughput is %s.")
}

// tail says which variant has the best tail with the most clients: by the lowest
// P99, since P99/P50 is also low for a variant that is always slow.
func tail(p *rank.Part) []string {
	if len(p.Variants) < 2 {
		return nil
	}
	clauses := lists.Map(p.Contests(matrix.P99, p.SizeEnds(), []int{p.MostClients()}), func(lowest rank.Ranking) string {
		return words.AtSize(lowest.At.Size) + tailAt(p, lowest)
	})
	tooFew := slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool {
		return c.IsValid() && c.Clients == p.MostClients() && c.Requests/int64(c.Valid) < matrix.P99Requests
	})
	if len(clauses) == 0 && tooFew && !p.Searched() {
		return []string{fmt.Sprintf("The shortest tail with %s was not measured: P99 needs %s requests per trial, and some trials have fewer.",
			words.Clients(p.MostClients()), units.Thousands(matrix.P99Requests))}
	}
	return words.Sentence(clauses, "The tail with %s: %s.", words.Clients(p.MostClients()))
}

func tailAt(p *rank.Part, lowest rank.Ranking) string {
	low := p.Cell(lowest.Best, lowest.At)
	steady := p.Steadiest(low, lowest.At)
	holds := "is lowest"
	if lowest.IsSure() && steady == low {
		holds = "holds it best"
	}
	text := fmt.Sprintf("%s %s with a P99 of %s, %s times its P50%s", lowest.Best, holds, words.Between(lowest.Value, words.Micros), units.Number(low.P99OverP50.Value), words.DoubtOf(lowest))
	for _, s := range low.ResponseTimes().Stalls {
		if s.Percentile == matrix.P99 {
			text += fmt.Sprintf(" (%d of %d trials stalled, for up to %s, and P99 of the others is %s)", len(s.Repeats), s.Trials, words.Micros(s.Longest), words.Micros(s.Without))
		}
	}
	if steady == low {
		return text
	}
	return text + fmt.Sprintf(" (%s has the lowest P99/P50, %s, but over a P50 of %s, which makes its P99 %s: steady, not short)",
		steady.Variant, units.Number(steady.P99OverP50.Value), words.Micros(steady.ResponseTimes().P50.Value), words.Micros(steady.ResponseTimes().P99.Value))
}

// choice gives the rule for choosing that the measurements support: with the fewest and with
// the most clients, the fewest ranges of sizes with a variant that no measurement speaks
// against. It looks at P99 and CPU time with the most clients, for which a system would be
// sized.
func choice(p *rank.Part) []string {
	if len(p.Variants) < 2 {
		return nil
	}
	if !p.Repeated() {
		return []string{"There are too few trials of each cell to choose by: what differs may be the machine. Three repeats give verdicts."}
	}
	if !slices.ContainsFunc(p.Comparisons, rank.IsDecided) {
		return []string{fmt.Sprintf("No difference between %s is beyond doubt: choose by other merits.", words.List(p.Variants))}
	}
	rules := lists.Map(p.ClientEnds(), func(n int) string { return ruleByMean(p, n, "no mean is lowest beyond doubt") })
	clauses := []string{"with " + words.Clients(p.Clients[0]) + " " + rules[0]}
	if len(rules) == 2 && rules[0] == rules[1] {
		clauses = []string{fmt.Sprintf("%s, with %s as with %d", rules[0], words.Clients(p.Clients[0]), p.MostClients())}
	} else if len(rules) == 2 {
		clauses = append(clauses, "with "+words.Clients(p.MostClients())+" "+rules[1])
	}
	for _, by := range []struct{ metric, name string }{{matrix.P99, "P99"}, {matrix.CPU, "CPU time"}} {
		switch ranges := p.Ranges(by.metric, p.MostClients()); {
		case len(ranges) == 0: // not measured
		case p.AllCandidates(ranges):
			clauses = append(clauses, fmt.Sprintf("no %s with %s is lowest beyond doubt", by.name, words.Clients(p.MostClients())))
		default:
			clauses = append(clauses, fmt.Sprintf("where %s with %s matters, %s", by.name, words.Clients(p.MostClients()), bySize(p, ranges)))
		}
	}
	return words.Sentence(clauses, "To choose: %s.")
}

// ruleByMean says which variants to choose with n clients, or open if no measurement decides.
func ruleByMean(p *rank.Part, n int, open string) string {
	if ranges := p.Ranges(matrix.Mean, n); !p.AllCandidates(ranges) {
		return bySize(p, ranges)
	}
	return open
}

func bySize(p *rank.Part, ranges []rank.SizeRange) string {
	texts := make([]string, len(ranges))
	for i, s := range ranges {
		what := words.Joined(s.Candidates, "or")
		if len(s.Candidates) == len(p.Variants) {
			what = "any"
		}
		switch {
		case len(ranges) == 1:
			texts[i] = what
		case !p.SizesAscend():
			texts[i] = what + " at " + words.List(lists.Map(s.Sizes, words.PayloadText))
		case i == 0:
			texts[i] = fmt.Sprintf("%s up to %s", what, words.PayloadText(s.Sizes[len(s.Sizes)-1]))
		case i == len(ranges)-1:
			texts[i] = fmt.Sprintf("%s from %s", what, words.PayloadText(s.Sizes[0]))
		default:
			texts[i] = fmt.Sprintf("%s from %s to %s", what, words.PayloadText(s.Sizes[0]), words.PayloadText(s.Sizes[len(s.Sizes)-1]))
		}
	}
	return strings.Join(texts, ", ")
}
