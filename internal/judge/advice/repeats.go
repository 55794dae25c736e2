package advice

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// looks says what a run was repeated for, and whether it reached that.
func looks(s *analysis.Summary) []string {
	u := s.Until
	if u == nil || u.Check() != nil {
		return nil
	}
	goal, counted := "every comparison of the mean was decided", "comparisons are decided"
	if u.Claims {
		goal, counted = "every claim stood", "claims do"
	}
	if u.Width > 0 {
		goal = "each mean was known within " + words.Share(u.Width)
		counted = "means are"
	}
	last := u.Looks[u.Begun-1]
	where := fmt.Sprintf("look %d of at most %d, after %s", u.Begun, len(u.Looks), words.Count(last.Repeats, "repeat"))
	if last.Open == nil || last.Of == nil || u.Ended == "" {
		return []string{fmt.Sprintf("Repeated until %s, but ended before %s: what was measured is judged as at that look.", goal, where)}
	}
	switch u.Ended {
	case record.EndedAnswered:
		return []string{fmt.Sprintf("Repeated until %s: at %s. Verdicts and intervals allow for the looks.", goal, where)}
	case record.EndedNothing:
		if u.Claims {
			return []string{fmt.Sprintf("Repeated until %s, but at %s, %d of %d %s, and more repeats would decide none of the others. Verdicts and intervals allow for the looks.",
				goal, where, *last.Of-*last.Open, *last.Of, counted)}
		}
		return []string{fmt.Sprintf("Repeated until %s, but at %s, there was nothing valid to look at.", goal, where)}
	}
	why := "no more repeats were allowed"
	if u.Ended == record.EndedByTime {
		why = "the time was too short for more"
	}
	return []string{fmt.Sprintf("Repeated until %s, but at %s, %d of %d %s, and %s. Verdicts and intervals allow for the looks.",
		goal, where, *last.Of-*last.Open, *last.Of, counted, why)}
}

// stillOpen counts what a repeating run left undecided.
func stillOpen(s *analysis.Summary) []string {
	u := s.Until
	if u == nil || u.Check() != nil || u.Ended == record.EndedAnswered {
		return nil
	}
	last := u.Looks[u.Begun-1]
	if last.Open == nil || last.Of == nil {
		return nil
	}
	what := "comparisons of the mean"
	if u.Claims {
		return nil // they are counted with the others
	}
	if u.Width > 0 {
		what = "means"
	}
	return []string{fmt.Sprintf("After %s %d of %d %s are still open.", words.Count(last.Repeats, "repeat"), *last.Open, *last.Of, what)}
}

// power says what difference of the mean the repeats can find, and how many would find more.
// It says nothing if every comparison is decided.
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
		words.Share(p.Noise), words.Count(p.Pairs, "repeat"), words.Share(p.Findable))
	if p.Findable > p.Difference && p.PairsForDifference != nil {
		text += fmt.Sprintf("; one of %s takes about %s", words.Share(p.Difference), words.Count(*p.PairsForDifference, "repeat"))
	}
	if p.PairsForEquivalence != nil && *p.PairsForEquivalence > p.Pairs {
		text += fmt.Sprintf("; that two variants are equal within 5 %% takes about %s", words.Count(*p.PairsForEquivalence, "repeat"))
	}
	return []string{text + "."}
}

// Outlook says in one line what a number of repeats can find, at the noise of trials
// elsewhere: "of the same cells in RUN". Without a power it is not known.
func Outlook(p *compare.Power, repeats int, where string) string {
	if p == nil {
		return "could find: not known yet; a first run with 3 repeats or more on this machine will tell the next"
	}
	what := map[string]string{matrix.Mean: "the mean", matrix.Throughput: "throughput"}[p.Metric]
	difference := words.Share(p.Findable)
	if p.Findable >= 1 {
		difference = "a factor of " + units.Number(1+p.Findable)
	}
	text := fmt.Sprintf("could find: %s in %s with %s", difference, what, words.Count(p.Pairs, "repeat"))
	if repeats < p.Pairs {
		text = fmt.Sprintf("could find: nothing with %s; %s in %s with %d", words.Count(repeats, "repeat"), difference, what, p.Pairs)
	}
	text += fmt.Sprintf(", at the noise of trials %s (%s)", where, words.Share(p.Noise))
	if p.Findable > p.Difference && p.PairsForDifference != nil {
		text += fmt.Sprintf("; %s: about %s", words.Share(p.Difference), words.Count(*p.PairsForDifference, "repeat"))
	}
	if p.PairsForEquivalence != nil {
		text += fmt.Sprintf("; equal within 5 %%: about %s", words.Count(*p.PairsForEquivalence, "repeat"))
	}
	return text
}
