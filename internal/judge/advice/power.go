package advice

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// power says what difference of the mean the repeats could find, and how many would tell
// more. It says nothing where every comparison is decided.
func power(s *analysis.Summary) []string {
	i := slices.IndexFunc(s.Powers, func(p compare.Power) bool { return p.Metric == matrix.Mean })
	open := slices.ContainsFunc(s.Comparisons, func(c compare.Comparison) bool {
		return c.Metric == matrix.Mean && c.Verdict == compare.Undecided
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

// Outlook says in a line what so many repeats could find, at the noise that trials have
// somewhere: "of the same cells in RUN". Without a power it is not known.
func Outlook(p *compare.Power, repeats int, where string) string {
	if p == nil {
		return "could find: not known yet; a first run with 3 repeats or more on this machine will tell the next"
	}
	what := map[string]string{matrix.Mean: "the mean", matrix.Throughput: "throughput"}[p.Metric]
	difference := share(p.Findable)
	if p.Findable >= 1 {
		difference = "a factor of " + number(1+p.Findable)
	}
	text := fmt.Sprintf("could find: %s in %s with %s", difference, what, count(p.Pairs, "repeat"))
	if repeats < p.Pairs {
		text = fmt.Sprintf("could find: nothing with %s; %s in %s with %d", count(repeats, "repeat"), difference, what, p.Pairs)
	}
	text += fmt.Sprintf(", at the noise of trials %s (%s)", where, share(p.Noise))
	if p.Findable > p.Difference && p.PairsForDifference != nil {
		text += fmt.Sprintf("; %s: about %s", share(p.Difference), count(*p.PairsForDifference, "repeat"))
	}
	if p.PairsForEquivalence != nil {
		text += fmt.Sprintf("; equal within 5 %%: about %s", count(*p.PairsForEquivalence, "repeat"))
	}
	return text
}
