package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// casePairs groups the comparisons of means by pair of variants, the largest groups first.
func casePairs(s *analysis.Summary) [][]*compare.Comparison {
	var compared []*compare.Comparison
	for i := range s.Comparisons {
		if c := &s.Comparisons[i]; c.Metric == matrix.Mean && !isDividedPart(s, c.Part) {
			compared = append(compared, c)
		}
	}
	pairs := lists.GroupBy(compared, func(c *compare.Comparison) [2]string { return [2]string{c.A, c.B} })
	slices.SortStableFunc(pairs, func(a, b []*compare.Comparison) int { return cmp.Compare(len(b), len(a)) })
	return pairs[:min(len(pairs), words.MaxShownRivals)]
}

// isDividedPart reports whether a part only divides a difference into shares. Such a part is no
// case.
func isDividedPart(s *analysis.Summary, part string) bool {
	return slices.ContainsFunc(s.Shares, func(d compare.Shares) bool { return d.Part == part })
}

// verdictOrder is the printing order of verdicts on the second variant of a pair.
var verdictOrder = []compare.Verdict{compare.Slower, compare.Faster, compare.Equivalent, compare.Undecided}

// countVerdicts counts the cases by the verdict on the second variant. It inverts the comparison's
// verdict, which is on the first variant. The key "" counts cases without a verdict.
func countVerdicts(pair []*compare.Comparison) map[compare.Verdict]int {
	count := map[compare.Verdict]int{}
	for _, c := range pair {
		switch {
		case c.Ratio.Interval == nil:
			count[""]++
		case c.Verdict == compare.Equivalent && !c.IsEqual():
			count[compare.Undecided]++
		default:
			count[c.Verdict.Opposite()]++
		}
	}
	return count
}

// caseVerdict compares the second of two variants with the first.
func caseVerdict(pair []*compare.Comparison) string {
	first, other := pair[0].A, pair[0].B
	count := countVerdicts(pair)
	names := map[compare.Verdict]string{compare.Slower: "slower than " + first, compare.Equivalent: "equal within 5 %"}
	var texts []string
	for _, v := range verdictOrder {
		if n := count[v]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s in %d", cmp.Or(names[v], string(v)), n))
		}
	}
	verdicts := other + " is " + words.List(texts)
	switch tooFew := count[""]; {
	case len(texts) == 0:
		verdicts = fmt.Sprintf("%s and %s have too few trials for a verdict", other, first)
	case tooFew > 0:
		verdicts += fmt.Sprintf(" (%d have too few trials for a verdict)", tooFew)
	}
	byRatio := func(a, b *compare.Comparison) int { return cmp.Compare(a.Ratio.Value, b.Ratio.Value) }
	least, most := slices.MaxFunc(pair, byRatio), slices.MinFunc(pair, byRatio) // high ratio: B is fast
	name := func(c *compare.Comparison) string { return fmt.Sprintf("%s with %s", c.Part, words.Clients(c.Clients)) }
	return fmt.Sprintf("Of %s, by mean response time %s; it takes %s as long as %s in %s, and %s in %s.", words.Count(len(pair), "scenario"), verdicts,
		words.TimesText(least.Ratio.Inverse()), first, name(least), words.TimesText(most.Ratio.Inverse()), name(most))
}

// caseLimits counts the closed loops by what limits them: CPU time or waiting.
func caseLimits(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "closed", func(c *matrix.Cell) bool { return c.IsValid() && !isDividedPart(s, c.Part) })
	by := groupByBound(cells)
	var clauses []string
	effect := ""
	if waiting := by[matrix.ByWaiting]; len(waiting) > 0 {
		what := "the simulated work"
		if slices.ContainsFunc(waiting, func(c *matrix.Cell) bool { return !s.Declared.Workload(c.Workload).Has(scenario.SimulatedWorkRole) }) {
			what = "waiting"
		}
		least, longest := meanSpan(waiting)
		clauses = append(clauses, fmt.Sprintf("%s in %d", what, len(waiting)))
		effect = fmt.Sprintf(" In %s the limit is %s: each call waits %s to %s, so the number of users sets the throughput. The protocol may reach more.",
			words.Count(len(waiting), "loop"), what, words.Micros(least), words.Micros(longest))
	}
	for _, end := range []struct {
		bound matrix.Bound
		text  string
	}{{matrix.ByServerCPU, "the server's CPU"}, {matrix.ByClientCPU, "the client's CPU"}, {matrix.NoClearBound, "neither clearly"}} {
		if cells := by[end.bound]; len(cells) > 0 {
			clauses = append(clauses, fmt.Sprintf("%s in %d (%s)", end.text, len(cells), namesWithParts(cells)))
		}
	}
	return lists.Map(words.Sentence(clauses, "Limits of the %d closed loops: %s.", len(cells)), func(limits string) string { return limits + effect })
}

// namesWithParts names some of the cells by variant, part and clients.
func namesWithParts(cells []*matrix.Cell) string {
	return words.List(words.FirstItems(lists.Map(cells, func(c *matrix.Cell) string {
		return fmt.Sprintf("%s %s with %s", c.Variant, c.Part, words.Clients(c.Clients))
	}), "%d more"))
}

// caseLine returns caseVerdict's comparison in one short line.
func caseLine(pair []*compare.Comparison) string {
	count := countVerdicts(pair)
	taken := lists.Map(pair, func(c *compare.Comparison) float64 { return c.Ratio.Inverse().Value })
	line := fmt.Sprintf("%s took %s as long as %s in %s", pair[0].B, words.TimesBetween(slices.Min(taken), slices.Max(taken)), pair[0].A, words.Count(len(pair), "case"))
	if count[""] == len(pair) {
		return words.CutLine(line + "; too few trials, so nothing is proven.")
	}
	var texts []string
	for _, v := range verdictOrder {
		if count[v] > 0 {
			texts = append(texts, fmt.Sprintf("%s in %d", v, count[v]))
		}
	}
	if n := count[""]; n > 0 {
		texts = append(texts, fmt.Sprintf("too few trials in %d", n))
	}
	return words.CutLine(line + ": " + strings.Join(texts, ", ") + ".")
}
