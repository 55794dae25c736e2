package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// cases gives the advice on a study of many small cases without a main one.
func cases(s *analysis.Summary) []string {
	return slices.Concat(caseVerdicts(s), caseLimits(s), shares(s), bursts(s), sustained(s))
}

// caseVerdicts counts by mean response time, which every load has.
func caseVerdicts(s *analysis.Summary) []string {
	return lists.Map(casePairs(s), caseVerdict)
}

// casePairs returns the comparisons of the mean of every two variants, the pairs with the most
// cases first.
func casePairs(s *analysis.Summary) [][]*compare.Comparison {
	var compared []*compare.Comparison
	for i := range s.Comparisons {
		if c := &s.Comparisons[i]; c.Metric == matrix.Mean && !hasShares(s, c.Part) {
			compared = append(compared, c)
		}
	}
	pairs := lists.GroupBy(compared, func(c *compare.Comparison) [2]string { return [2]string{c.A, c.B} })
	slices.SortStableFunc(pairs, func(a, b []*compare.Comparison) int { return cmp.Compare(len(b), len(a)) })
	return pairs[:min(len(pairs), words.ShownRivals)]
}

// hasShares reports whether a part is there to divide a difference into shares,
// and is not one of the cases.
func hasShares(s *analysis.Summary, part string) bool {
	return slices.ContainsFunc(s.Shares, func(d compare.Shares) bool { return d.Part == part })
}

// caseVerdict says how the second of two variants does against the first. The
// comparisons' verdicts are on the first.
func caseVerdict(pair []*compare.Comparison) string {
	first, other := pair[0].A, pair[0].B
	count, tooFew := map[compare.Verdict]int{}, 0
	for _, c := range pair {
		if c.Ratio.Interval == nil {
			tooFew++
		} else {
			count[rank.Opposite(c.Verdict)]++
		}
	}
	var texts []string
	for _, v := range []struct {
		verdict compare.Verdict
		text    string
	}{
		{compare.Slower, "slower than " + first}, {compare.Faster, "faster"}, {compare.Equivalent, "equal within 5 %"}, {compare.Undecided, "undecided"},
	} {
		if n := count[v.verdict]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s in %d", v.text, n))
		}
	}
	verdicts := other + " is " + words.List(texts)
	switch {
	case len(texts) == 0:
		verdicts = fmt.Sprintf("%s against %s was measured too seldom for a verdict", other, first)
	case tooFew > 0:
		verdicts += fmt.Sprintf(" (%d were measured too seldom for a verdict)", tooFew)
	}
	byRatio := func(a, b *compare.Comparison) int { return cmp.Compare(a.Ratio.Value, b.Ratio.Value) }
	least, most := slices.MaxFunc(pair, byRatio), slices.MinFunc(pair, byRatio) // of the second's time
	return fmt.Sprintf("Of %d scenarios, by mean response time %s; it takes %s as long as %s in %s, and %s in %s.", len(pair), verdicts,
		words.Times(least.Ratio.Inverse()), first, caseName(least), words.Times(most.Ratio.Inverse()), caseName(most))
}

func caseName(c *compare.Comparison) string {
	return fmt.Sprintf("%s with %s", c.Part, words.Clients(c.Clients))
}

// caseLimits says for all closed loops whether the CPU was the limit, or what calls wait for.
func caseLimits(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "closed", func(c *matrix.Cell) bool { return c.IsValid() && !hasShares(s, c.Part) })
	by := byBound(cells)
	var clauses []string
	if waiting := by[matrix.ByWaiting]; len(waiting) > 0 {
		least, longest := meanSpan(waiting)
		clauses = append(clauses, fmt.Sprintf("%s in %d: throughput there is the users over the %s to %s that a call waits, not what the wire can carry",
			waitedFor(s, waiting), len(waiting), words.Micros(least), words.Micros(longest)))
	}
	for _, end := range cpuBounds {
		if busy := by[end.bound]; len(busy) > 0 {
			clauses = append(clauses, fmt.Sprintf("%s in %d (%s)", end.text, len(busy), namesWithParts(busy)))
		}
	}
	if unsure := by[matrix.Unbound]; len(unsure) > 0 {
		clauses = append(clauses, fmt.Sprintf("neither plainly in %d (%s)", len(unsure), namesWithParts(unsure)))
	}
	return words.Sentence(clauses, "What limits the %d closed loops is %s.", len(cells))
}

// namesWithParts names some of the cells by variant, part and clients.
func namesWithParts(cells []*matrix.Cell) string {
	var texts []string
	for _, c := range cells {
		texts = append(texts, fmt.Sprintf("%s %s with %s", c.Variant, c.Part, words.Clients(c.Clients)))
	}
	return words.List(words.Shortened(texts, "%d more"))
}

// waitedFor names the simulated work, if all of the cells' handlers have some.
func waitedFor(s *analysis.Summary, cells []*matrix.Cell) string {
	for _, c := range cells {
		if !s.Declared.Workload(c.Workload).Has(scenario.SimulatedWorkRole) {
			return "waiting"
		}
	}
	return "the simulated work"
}

// casesCounted says of every two variants in how many of the cases one is slower: first of the
// two that have most cases.
func casesCounted(s *analysis.Summary) (first, others []string) {
	var lines []string
	for _, pair := range casePairs(s) {
		lines = append(lines, caseLine(pair))
	}
	return lines[:min(1, len(lines))], lines[min(1, len(lines)):]
}

func caseLine(pair []*compare.Comparison) string {
	n, verdicts := map[compare.Verdict]int{}, 0
	taken := make([]float64, len(pair))
	for i, c := range pair {
		taken[i] = c.Ratio.Inverse().Value
		if c.Ratio.Interval != nil {
			n[rank.Opposite(c.Verdict)]++
			verdicts++
		}
	}
	var texts []string
	for _, verdict := range []compare.Verdict{compare.Slower, compare.Faster, compare.Equivalent, compare.Undecided} {
		if n[verdict] > 0 {
			texts = append(texts, fmt.Sprintf("%s in %d", verdict, n[verdict]))
		}
	}
	if verdicts < len(pair) {
		texts = append(texts, "without a verdict")
		if verdicts > 0 {
			texts[len(texts)-1] += fmt.Sprintf(" in %d", len(pair)-verdicts)
		}
	}
	long := units.Number(slices.Min(taken)) + "×"
	if len(pair) > 1 {
		long = units.Number(slices.Min(taken)) + " to " + units.Number(slices.Max(taken)) + "×"
	}
	return words.Cut(fmt.Sprintf("%s takes %s as long as %s in %s: %s.", pair[0].B, long, pair[0].A, words.Count(len(pair), "case"), strings.Join(texts, ", ")))
}
