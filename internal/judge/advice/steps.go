package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
)

// steps says where a call's time jumps with its size, and what takes the jump away.
func steps(s *analysis.Summary) []string {
	var sentences []string
	for _, all := range lists.GroupBy(s.Steps, func(step compare.Step) string {
		return fmt.Sprint(step.Part, step.From, step.To, step.Clients)
	}) {
		sentences = append(sentences, stepSentences(all)...)
	}
	return sentences
}

// stepSentences describes one jump. The first step belongs to the part's first variant.
func stepSentences(all []compare.Step) []string {
	first := all[0]
	where := fmt.Sprintf("%s: from %s to %s", first.Part, words.ExactSize(first.From), words.ExactSize(first.To))
	switch first.Outcome {
	case compare.HasStep:
		sentences := []string{fmt.Sprintf("%s a call over %s takes %s times as long%s%s.", where, first.Variant, words.Between(first.Time, units.Number), moreFaults(first), cause(all))}
		for _, kind := range []struct {
			kind compare.StepKind
			says string
		}{{compare.StepGone, "that step is gone with %s."}, {compare.StepStays, "it stays with %s."}, {compare.StepUndecided, "it is undecided with %s."}} {
			if with := factors(all, kind.kind); len(with) > 0 {
				sentences = append(sentences, fmt.Sprintf(first.Part+": "+kind.says, words.List(with)))
			}
		}
		return sentences
	case compare.NoStep:
		return []string{fmt.Sprintf("%s a call over %s takes %s times as long: no step%s.", where, first.Variant, words.Between(first.Time, units.Number), appearing(all))}
	}
	return []string{fmt.Sprintf("%s it is undecided whether a call over %s has a step: %s times as long%s.", where, first.Variant, words.Between(first.Time, units.Number), appearing(all))}
}

// appearing names the variants that have a step of their own.
func appearing(all []compare.Step) string {
	with := factors(all, compare.StepAppears)
	if len(with) == 0 {
		return ""
	}
	return "; one appears with " + words.List(with)
}

// cause names what takes the step away, and what does not.
func cause(all []compare.Step) string {
	gone, stays := changed(all, compare.StepGone), changed(all, compare.StepStays)
	switch {
	case len(gone) == 0:
		return ": a step"
	case len(stays) == 0:
		return ": a step, which comes from what " + words.Joined(gone, "or") + " changes"
	}
	return fmt.Sprintf(": a step, which comes from what %s changes, and not from what %s changes", words.Joined(gone, "or"), words.Joined(stays, "or"))
}

// moreFaults gives the page faults that the larger message certainly has more.
func moreFaults(s compare.Step) string {
	if s.Faults == nil || s.Faults.Interval == nil || s.Faults.Interval.Low <= 0 {
		return ""
	}
	return fmt.Sprintf(", with %s page faults more", words.Between(*s.Faults, units.Number))
}

// factors names the variants of a kind by what differs from the first, with their ratios.
func factors(all []compare.Step, kind compare.StepKind) []string {
	var names []string
	for _, step := range all[1:] {
		if step.Outcome == kind {
			names = append(names, fmt.Sprintf("%s (%s)", factor(step), words.Between(step.Time, units.Number)))
		}
	}
	return names
}

// changed returns the options that the variants of a kind set, each once.
func changed(all []compare.Step, kind compare.StepKind) []string {
	var names []string
	for _, step := range all[1:] {
		name, _, _ := strings.Cut(factor(step), "=")
		if step.Outcome == kind && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// factor returns what a variant adds to the first.
func factor(step compare.Step) string {
	if rest, more := strings.CutPrefix(step.Variant, step.Base); more {
		return strings.TrimLeft(rest, ":,")
	}
	return step.Variant
}

// stepLines says where the time jumps, and what takes the jump away.
func stepLines(s *analysis.Summary) []string {
	var lines []string
	for _, all := range lists.GroupBy(s.Steps, func(step compare.Step) string {
		return fmt.Sprint(step.Part, step.From, step.To, step.Clients)
	}) {
		first := all[0]
		head := fmt.Sprintf("%s to %s over %s: %s, ", words.ExactSize(first.From), words.ExactSize(first.To), first.Variant, words.Factor(first.Time))
		switch first.Outcome {
		case compare.HasStep:
			var items []string
			if gone := changed(all, compare.StepGone); len(gone) > 0 {
				items = append(items, "gone with "+words.Joined(gone, "or"))
			}
			if stays := changed(all, compare.StepStays); len(stays) > 0 {
				items = append(items, "not with "+words.Joined(stays, "or"))
			}
			lines = append(lines, words.Fill(head+"a step; ", append(items, ""))...)
		case compare.NoStep:
			lines = append(lines, words.Cut(head+"no step."))
		default:
			lines = append(lines, words.Cut(head+"undecided."))
		}
	}
	return lines
}
