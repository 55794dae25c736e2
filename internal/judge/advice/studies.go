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

// claims writes for each claim of the scenario whether it holds here, with the evidence.
func claims(s *analysis.Summary) []string {
	var sentences, unasked []string
	for i := range s.Claims {
		if c := &s.Claims[i]; c.Unasked {
			unasked = append(unasked, quoted(c))
		} else {
			sentences = append(sentences, claimSentence(c))
		}
	}
	if len(unasked) > 0 {
		sentences = append(sentences, "Not judged without the yardstick, which `run --yardstick` measures:  "+words.List(unasked)+".")
	}
	return sentences
}

func quoted(c *compare.Claim) string {
	text := "“" + c.Says + "”"
	if c.Row != "" {
		text = c.Row + ", " + text
	}
	return text
}

var outcomes = map[compare.Outcome]string{
	compare.Compatible:   "compatible with what was measured here",
	compare.Larger:       "a larger effect here than claimed",
	compare.Smaller:      "a smaller effect here than claimed",
	compare.Refuted:      "refuted here",
	compare.Underpowered: "undecided here",
	compare.Unmeasured:   "not measured here",
}

func claimSentence(c *compare.Claim) string {
	sentence := quoted(c) + ": " + outcomes[c.Outcome]
	if c.Ratio != nil {
		sentence += fmt.Sprintf(": %s, claimed %s", words.Between(*c.Ratio, units.Number), c.Claimed())
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
		sentence += ". That is " + c.Find + " in " + c.Part
	}
	return sentence + "."
}

var shareNames = map[string]string{
	matrix.CPU:        "CPU time per request, of both ends,",
	matrix.Throughput: "throughput",
	matrix.Mean:       "the mean time of a call",
}

// shares divides the difference between a part's first variant and its last among the changes.
func shares(s *analysis.Summary) []string {
	var sentences []string
	for _, d := range s.Shares {
		sameAsThroughput := d.Metric == matrix.Mean && rank.ClosedLoop(s, d.Part)
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
		return fmt.Sprintf("Undecided: the parts of %s: %s in too few repeats to be sure.", where, words.Times(d.Ratio))
	case !d.Decided:
		return fmt.Sprintf("Undecided: %s: %s, which may be no difference, so it is not divided.", where, words.Times(d.Ratio))
	}
	texts := lists.Map(d.Steps, func(step compare.ShareStep) string {
		share := words.Between(*step.Share, words.Share)
		switch {
		case step.Share.Interval == nil || !step.Decided:
			return step.Change + " undecided, " + share
		case step.Share.Value < 0:
			return step.Change + " " + share + ", a saving"
		}
		return step.Change + " " + share
	})
	return fmt.Sprintf("%s: %s. Shares of this difference: %s.", words.Upper(where), words.Times(d.Ratio), strings.Join(texts, "; "))
}

// shareLines divides a difference in CPU time among the changes, or else a difference in time.
func shareLines(s *analysis.Summary) []string {
	for _, by := range []struct{ metric, name string }{{matrix.Mean, "time"}, {matrix.CPU, "CPU"}} {
		i := slices.IndexFunc(s.Shares, func(d compare.Shares) bool { return d.Metric == by.metric && len(d.Steps) > 0 })
		if i < 0 {
			continue
		}
		d := s.Shares[i]
		ratio := words.Factor(d.Ratio)
		if d.Ratio.Interval == nil {
			ratio += " (" + words.Count(d.Pairs, "trial") + ")"
		}
		return words.Fill(fmt.Sprintf("%s over %s, %s %s: ", d.To, d.From, by.name, ratio), shareSteps(d.Steps))
	}
	return nil
}

// shareSteps lists the changes, each with its ratio to the changes before it.
func shareSteps(steps []compare.ShareStep) []string {
	items := make([]string, len(steps))
	for i, step := range steps {
		change, _, _ := strings.Cut(strings.TrimPrefix(step.Change, "the "), " (") // without its explanation
		further := ""
		if i == 1 && step.Ratio.Value > 1 {
			further = "a further "
		}
		items[i] = change + " " + further + units.Number(step.Ratio.Value) + "×"
	}
	return items
}

// claimCount counts the claims by their outcome.
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

// steps names the sizes where a call's time jumps, and the changes that remove the jump.
func steps(s *analysis.Summary) []string {
	var sentences []string
	for _, all := range jumps(s) {
		sentences = append(sentences, stepSentences(all)...)
	}
	return sentences
}

// jumps groups the variants at each jump. The first belongs to the part's first variant.
func jumps(s *analysis.Summary) [][]compare.Step {
	return lists.GroupBy(s.Steps, func(step compare.Step) string {
		return fmt.Sprint(step.Part, step.From, step.To, step.Clients)
	})
}

func stepSentences(all []compare.Step) []string {
	first := all[0]
	where := fmt.Sprintf("%s: from %s to %s", first.Part, words.ExactSize(first.From), words.ExactSize(first.To))
	times := words.Between(first.Time, units.Number)
	appears := ""
	if with := factors(all, compare.StepAppears); len(with) > 0 {
		appears = "; one appears with " + words.List(with)
	}
	switch first.Outcome {
	case compare.HasStep:
		faults := "" // additional page faults that the larger message is proven to have
		if first.Faults != nil && first.Faults.Interval != nil && first.Faults.Interval.Low > 0 {
			faults = fmt.Sprintf(", with %s more page faults", words.Between(*first.Faults, units.Number))
		}
		sentences := []string{fmt.Sprintf("%s a call over %s takes %s times as long%s%s.", where, first.Variant, times, faults, cause(all))}
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
		return []string{fmt.Sprintf("%s a call over %s takes %s times as long: no step%s.", where, first.Variant, times, appears)}
	}
	return []string{fmt.Sprintf("%s it is undecided whether a call over %s has a step: %s times as long%s.", where, first.Variant, times, appears)}
}

// cause names the options that remove the step, and those that do not.
func cause(all []compare.Step) string {
	gone, stays := changed(all, compare.StepGone), changed(all, compare.StepStays)
	switch {
	case len(gone) == 0:
		return ": a step"
	case len(stays) == 0:
		return ": a step, caused by what " + words.Joined(gone, "or") + " changes"
	}
	return fmt.Sprintf(": a step, caused by what %s changes, not by what %s changes", words.Joined(gone, "or"), words.Joined(stays, "or"))
}

// factors names the variants of a kind by their difference from the first, with their ratios.
func factors(all []compare.Step, kind compare.StepKind) []string {
	var names []string
	for _, step := range all[1:] {
		if step.Outcome == kind {
			names = append(names, fmt.Sprintf("%s (%s)", factor(step), words.Between(step.Time, units.Number)))
		}
	}
	return names
}

// changed returns the options that variants of a kind set, without repetition.
func changed(all []compare.Step, kind compare.StepKind) []string {
	var names []string
	for _, step := range all[1:] {
		if step.Outcome == kind {
			name, _, _ := strings.Cut(factor(step), "=")
			names = lists.AppendNew(names, name)
		}
	}
	return names
}

// factor returns the options that a variant adds to the first.
func factor(step compare.Step) string {
	if rest, more := strings.CutPrefix(step.Variant, step.Base); more {
		return strings.TrimLeft(rest, ":,")
	}
	return step.Variant
}

// stepLines names the sizes where the time jumps, and the changes that remove the jump.
func stepLines(s *analysis.Summary) []string {
	var lines []string
	for _, all := range jumps(s) {
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
