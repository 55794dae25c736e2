package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

// rejudged says where trials are judged otherwise than when they were measured.
func rejudged(s *analysis.Summary) []string {
	r := s.Rejudged
	if r == nil {
		return nil
	}
	var sentences []string
	reasons := func(of func(analysis.CheckChange) bool) string {
		var texts []string
		for _, c := range r.Changes {
			if of(c) {
				texts = append(texts, fmt.Sprintf("%s in %s (%s)", c.Check, count(c.Trials, "trial"), c.Detail))
			}
		}
		if more := len(texts) - shownCells; more > 0 {
			texts = append(texts[:shownCells], fmt.Sprintf("and %d more", more))
		}
		return strings.Join(texts, "; ")
	}
	if r.NowInvalid > 0 {
		sentences = append(sentences, fmt.Sprintf("Invalid by this version's rules, and valid when measured: %s. Why: %s.",
			count(r.NowInvalid, "trial"), reasons(func(c analysis.CheckChange) bool { return c.ChangesValidity && c.Level == record.Invalid })))
	}
	if r.NowValid > 0 {
		sentences = append(sentences, fmt.Sprintf("Valid by this version's rules, and invalid when measured: %s. Why they were not: %s.",
			count(r.NowValid, "trial"), reasons(func(c analysis.CheckChange) bool { return c.ChangesValidity && c.Stored == record.Invalid })))
	}
	if len(sentences) == 0 && len(r.Changes) > 0 {
		sentences = append(sentences, fmt.Sprintf("No trial is more or less valid by this version's rules than when measured, but some checks come to another level: %s.",
			reasons(func(analysis.CheckChange) bool { return true })))
	}
	if len(r.Kept) > 0 {
		var names []string
		for _, k := range r.Kept {
			names = append(names, fmt.Sprintf("%s (%s)", k.Check, count(k.Trials, "trial")))
		}
		slices.Sort(names)
		sentences = append(sentences, "Could not be judged again, because the records lack what the check reads, and stands as when measured: "+list(names)+".")
	}
	return sentences
}
