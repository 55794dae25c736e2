package advice

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/analysis"
)

// power says what difference of the mean the repeats could find, and how many would tell
// more. It says nothing where every comparison is decided.
func power(s *analysis.Summary) []string {
	i := slices.IndexFunc(s.Powers, func(p analysis.Power) bool { return p.Metric == analysis.Mean })
	open := slices.ContainsFunc(s.Comparisons, func(c analysis.Comparison) bool {
		return c.Metric == analysis.Mean && c.Verdict == analysis.Undecided
	})
	if i < 0 || !open {
		return nil
	}
	p := s.Powers[i]
	text := fmt.Sprintf("Trials of one cell differ by %s, so that %s show a difference of the mean from %s on, four times in five",
		share(p.Noise), count(p.Pairs, "repeat"), share(p.Findable))
	if p.Findable > p.Difference && p.PairsForDifference != nil {
		text += fmt.Sprintf("; one of %s takes about %s", share(p.Difference), count(*p.PairsForDifference, "repeat"))
	}
	if p.PairsForEquivalence != nil && *p.PairsForEquivalence > p.Pairs {
		text += fmt.Sprintf("; that two variants are equal within 5 %% takes about %s", count(*p.PairsForEquivalence, "repeat"))
	}
	return []string{text + "."}
}
