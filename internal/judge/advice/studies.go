package advice

import (
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

// claimSentences writes for each claim of the scenario whether it holds here, with the evidence.
func claimSentences(s *analysis.Summary) []string {
	var sentences, unasked []string
	for i := range s.Claims {
		if c := &s.Claims[i]; c.Unasked {
			unasked = append(unasked, quotedClaim(c))
		} else {
			sentences = append(sentences, claimSentence(c))
		}
	}
	if len(unasked) > 0 {
		sentences = append(sentences, "Not judged, because only `run --yardstick` measures the yardstick: "+words.List(unasked)+".")
	}
	return sentences
}

func quotedClaim(c *compare.Claim) string {
	text := "“" + c.Says + "”"
	if c.Row != "" {
		text = c.Row + ", " + text
	}
	return text
}

var outcomePhrases = map[compare.Outcome]string{
	compare.Compatible:   "compatible with what was measured here",
	compare.Larger:       "a larger effect here than claimed",
	compare.Smaller:      "a smaller effect here than claimed",
	compare.Refuted:      "refuted here",
	compare.Underpowered: "undecided here",
	compare.Unmeasured:   "not measured here",
}

func claimSentence(c *compare.Claim) string {
	sentence := quotedClaim(c) + ": " + outcomePhrases[c.Outcome]
	if c.Ratio != nil {
		sentence += fmt.Sprintf(": %s, claimed %s", words.WithInterval(*c.Ratio, units.Number), c.ClaimedText())
	}
	if c.Reason != "" {
		sentence += ": " + c.Reason
	}
	switch {
	case c.Outcome != compare.Underpowered || c.Ratio == nil:
	case c.Ratio.Interval == nil:
		sentence += "; three repeats or more may decide it"
	case c.NeededPairs == nil:
		sentence += "; it is so close to the limit between two answers that 10,000 repeats might not decide it"
	default:
		sentence += fmt.Sprintf("; about %d repeats would decide it", *c.NeededPairs)
	}
	if len(c.Factors) > 0 {
		sentence += "; " + c.FactorsInWords()
	}
	if c.But != "" {
		sentence += "; but " + c.But
	}
	if c.Ratio != nil {
		sentence += ". Computed as " + c.Find + " in " + c.Part
	}
	return sentence + "."
}

var shareNames = map[string]string{
	matrix.CPU:        "CPU time per request, of both ends,",
	matrix.Throughput: "throughput",
	matrix.Mean:       "the mean time of a call",
}

// shareSentences says how much each change adds to the difference between a part's first and last
// variant.
func shareSentences(s *analysis.Summary) []string {
	var sentences []string
	for _, d := range s.Shares {
		sameAsThroughput := d.Metric == matrix.Mean && rank.IsClosedLoop(s, d.Part)
		if (d.Metric == matrix.CPU || d.Decided) && !sameAsThroughput {
			sentences = append(sentences, shareSentence(d))
		}
	}
	return sentences
}

func shareSentence(d compare.Shares) string {
	where := fmt.Sprintf("%s of %s over %s's, %s with %s", shareNames[d.Metric], d.To, d.From, d.Workload, words.Clients(d.Clients))
	switch {
	case d.Ratio.Interval == nil:
		return fmt.Sprintf("Undecided: %s: %s, in too few repeats to be sure.", where, words.TimesText(d.Ratio))
	case !d.Decided:
		return fmt.Sprintf("Undecided: %s: %s, which may be no difference, so no shares are given.", where, words.TimesText(d.Ratio))
	}
	texts := lists.Map(d.Steps, func(step compare.ShareStep) string {
		share := words.WithInterval(*step.Share, words.Share)
		switch {
		case step.Share.Interval == nil || !step.Decided:
			return step.Change + " undecided, " + share
		case step.Share.Value < 0:
			return step.Change + " " + share + ", a saving"
		}
		return step.Change + " " + share
	})
	return fmt.Sprintf("%s: %s. Shares of this difference: %s.", words.Capitalize(where), words.TimesText(d.Ratio), strings.Join(texts, "; "))
}

// shareLines says how much each change adds to a difference in time, or else in CPU time.
func shareLines(s *analysis.Summary) []string {
	for _, by := range []struct{ metric, name string }{{matrix.Mean, "time"}, {matrix.CPU, "CPU"}} {
		i := slices.IndexFunc(s.Shares, func(d compare.Shares) bool { return d.Metric == by.metric && len(d.Steps) > 0 })
		if i < 0 {
			continue
		}
		d := s.Shares[i]
		ratio := words.FactorText(d.Ratio)
		if d.Ratio.Interval == nil {
			ratio += " (" + words.Count(d.Pairs, "trial") + ")"
		}
		return words.FillLine(fmt.Sprintf("%s over %s, %s %s: ", d.To, d.From, by.name, ratio), shareSteps(d.Steps))
	}
	return nil
}

// shareSteps lists the changes, each with the ratio of the variants after and before the change.
func shareSteps(steps []compare.ShareStep) []string {
	items := make([]string, len(steps))
	for i, step := range steps {
		change, _, _ := strings.Cut(strings.TrimPrefix(step.Change, "the "), " (")
		further := ""
		if i == 1 && step.Ratio.Value > 1 {
			further = "a further "
		}
		items[i] = change + " " + further + units.Number(step.Ratio.Value) + "×"
	}
	return items
}

func claimCount(s *analysis.Summary) []string {
	if len(s.Claims) == 0 {
		return nil
	}
	n := map[compare.Outcome]int{}
	for _, c := range s.Claims {
		n[c.Outcome]++
	}
	var texts []string
	for _, outcome := range compare.Outcomes {
		if n[outcome] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n[outcome], outcome))
		}
	}
	return []string{words.Count(len(s.Claims), "claim") + ": " + strings.Join(texts, ", ") + "."}
}

// stepsBySize names the sizes where a call's time jumps, and the changes that remove the jump.
func stepsBySize(s *analysis.Summary) []string {
	var sentences []string
	for _, all := range stepsByJump(s) {
		sentences = append(sentences, stepSentences(all)...)
	}
	return sentences
}

// stepsByJump groups steps between the same sizes. A group begins with the part's first variant.
func stepsByJump(s *analysis.Summary) [][]compare.Step {
	return lists.GroupBy(s.Steps, func(step compare.Step) string {
		return fmt.Sprint(step.Part, step.From, step.To, step.Clients)
	})
}

func stepSentences(all []compare.Step) []string {
	first := all[0]
	where := fmt.Sprintf("%s: from %s to %s", first.Part, words.ExactSize(first.From), words.ExactSize(first.To))
	times := words.WithInterval(first.Time, units.Number)
	appears := ""
	if with := variantsWithRatios(all, compare.StepAppears); len(with) > 0 {
		appears = "; a step appears with " + words.List(with)
	}
	switch first.Outcome {
	case compare.HasStep:
		faults := "" // additional page faults of the larger message, if proven
		if first.Faults != nil && first.Faults.Interval != nil && first.Faults.Interval.Low > 0 {
			faults = fmt.Sprintf(", with %s more page faults", words.WithInterval(*first.Faults, units.Number))
		}
		sentences := []string{fmt.Sprintf("%s a call over %s takes %s times as long%s%s.", where, first.Variant, times, faults, stepCause(all))}
		for _, kind := range []struct {
			kind compare.StepKind
			says string
		}{{compare.StepGone, "the step is gone with %s."}, {compare.StepStays, "the step stays with %s."}, {compare.StepUndecided, "the step is undecided with %s."}} {
			if with := variantsWithRatios(all, kind.kind); len(with) > 0 {
				sentences = append(sentences, fmt.Sprintf(first.Part+": "+kind.says, words.List(with)))
			}
		}
		return sentences
	case compare.NoStep:
		return []string{fmt.Sprintf("%s a call over %s takes %s times as long: no step%s.", where, first.Variant, times, appears)}
	}
	return []string{fmt.Sprintf("%s it is undecided whether a call over %s has a step: %s times as long%s.", where, first.Variant, times, appears)}
}

// stepCause names the options that remove the step, and the options that do not.
func stepCause(all []compare.Step) string {
	gone, stays := changedOptions(all, compare.StepGone), changedOptions(all, compare.StepStays)
	switch {
	case len(gone) == 0:
		return ": a step"
	case len(stays) == 0:
		return ": a step, caused by " + words.JoinWith(gone, "or")
	}
	return fmt.Sprintf(": a step, caused by %s, not by %s", words.JoinWith(gone, "or"), words.JoinWith(stays, "or"))
}

// variantsWithRatios names the variants of a kind by their added options, with their ratios.
func variantsWithRatios(all []compare.Step, kind compare.StepKind) []string {
	var names []string
	for _, step := range all[1:] {
		if step.Outcome == kind {
			names = append(names, fmt.Sprintf("%s (%s)", addedOptions(step), words.WithInterval(step.Time, units.Number)))
		}
	}
	return names
}

// changedOptions returns the distinct options that variants of a kind add.
func changedOptions(all []compare.Step, kind compare.StepKind) []string {
	var names []string
	for _, step := range all[1:] {
		if step.Outcome == kind {
			name, _, _ := strings.Cut(addedOptions(step), "=")
			names = lists.AppendNew(names, name)
		}
	}
	return names
}

// addedOptions returns the options that a variant adds to the part's first variant.
func addedOptions(step compare.Step) string {
	if rest, more := strings.CutPrefix(step.Variant, step.Base); more {
		return strings.TrimLeft(rest, ":,")
	}
	return step.Variant
}

// stepLines names the sizes where the time jumps, and the changes that remove the jump.
func stepLines(s *analysis.Summary) []string {
	var lines []string
	for _, all := range stepsByJump(s) {
		first := all[0]
		head := fmt.Sprintf("%s to %s over %s: %s, ", words.ExactSize(first.From), words.ExactSize(first.To), first.Variant, words.FactorText(first.Time))
		switch first.Outcome {
		case compare.HasStep:
			var items []string
			if gone := changedOptions(all, compare.StepGone); len(gone) > 0 {
				items = append(items, "gone with "+words.JoinWith(gone, "or"))
			}
			if stays := changedOptions(all, compare.StepStays); len(stays) > 0 {
				items = append(items, "not with "+words.JoinWith(stays, "or"))
			}
			lines = append(lines, words.FillLine(head+"a step; ", append(items, ""))...)
		case compare.NoStep:
			lines = append(lines, words.CutLine(head+"no step."))
		default:
			lines = append(lines, words.CutLine(head+"undecided."))
		}
	}
	return lines
}
