package advice

import (
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
)

// looks says what a run was repeated for, and whether that came about.
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
		goal = "each mean was known within " + share(u.Width)
		counted = "means are"
	}
	last := u.Looks[u.Begun-1]
	where := fmt.Sprintf("look %d of at most %d, after %s", u.Begun, len(u.Looks), count(last.Repeats, "repeat"))
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

// stillOpen counts what a run that was to repeat until something stood left open.
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
	return []string{fmt.Sprintf("After %s %d of %d %s are still open.", count(last.Repeats, "repeat"), *last.Open, *last.Of, what)}
}
