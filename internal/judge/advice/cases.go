package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
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

// verdictOrder is the printing order of verdicts on the second variant of a pair. The verdict "" means
// too few trials.
var verdictOrder = []compare.Verdict{compare.Slower, compare.Faster, compare.Equivalent, compare.Undecided, ""}

// countVerdicts counts the cases by the verdict on the second variant. It inverts the comparison's
// verdict, which is on the first variant. The key "" counts cases without a verdict. The margin is the
// largest of equal cases.
func countVerdicts(pair []*compare.Comparison) (count map[compare.Verdict]int, margin float64) {
	count = map[compare.Verdict]int{}
	for _, c := range pair {
		switch {
		case c.Ratio.Interval == nil:
			count[""]++
		case c.Verdict == compare.Equivalent && !c.IsEqual():
			count[compare.Undecided]++
		default:
			count[c.Verdict.Opposite()]++
		}
		if c.IsEqual() {
			margin = max(margin, c.Margin)
		}
	}
	return count, margin
}

// caseLines compares the second variant of each pair with the first, a line per pair.
func caseLines(s *analysis.Summary) []string {
	return lists.Map(casePairs(s), func(pair []*compare.Comparison) string {
		count, margin := countVerdicts(pair)
		taken := func(c *compare.Comparison) float64 { return c.Ratio.Inverse().Value }
		byTime := func(a, b *compare.Comparison) int { return cmp.Compare(taken(a), taken(b)) }
		least, most := slices.MinFunc(pair, byTime), slices.MaxFunc(pair, byTime)
		times := units.Number(taken(least))
		if longest := units.Number(taken(most)); longest != times {
			times += " to " + longest
		}
		var texts []string
		for _, v := range verdictOrder {
			word := string(v)
			if v == compare.Equivalent {
				word = "equal within " + units.Percent(margin)
			}
			if count[v] > 0 {
				texts = append(texts, fmt.Sprintf("%s in %d", cmp.Or(word, "too few trials"), count[v]))
			}
		}
		if count[""] == len(pair) {
			texts = []string{"too few trials, so nothing is proven"}
		}
		return fmt.Sprintf("%s took %s times as long as %s in %s: %s; longest in %s.", pair[0].B, times, pair[0].A, words.Count(len(pair), "case"), strings.Join(texts, ", "), most.Part)
	})
}

// caseLimits says what limits the closed loops of all cases.
func caseLimits(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "closed", func(c *matrix.Cell) bool { return c.IsValid() && !isDividedPart(s, c.Part) })
	return limitSentence(s, fmt.Sprintf("of the %d closed loops", len(cells)), cells)
}
