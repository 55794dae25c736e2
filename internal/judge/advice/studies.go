package advice

import (
	"fmt"
	"math"
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

// claimSentences answers the study's question in one sentence, and then writes for each claim of the
// scenario whether it holds here, with the evidence.
func claimSentences(s *analysis.Summary) []string {
	var sentences, unasked []string
	if clauses := leadClauses(s); len(clauses) > 0 {
		texts := lists.Map(clauses, func(c leadClause) string { return c.head + strings.Join(c.items, ", ") })
		sentences = append(sentences, words.Capitalize(trialsEach(clauses)+strings.Join(texts, "; "))+".")
	}
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

// A leadClause lists the measured figures of one claim.
type leadClause struct {
	head   string
	items  []string
	trials int // least number of trials of a figure
}

// maxLeadClauses is the number of claims whose figures answer a study's question. The sentences of
// the claims follow.
const maxLeadClauses = 2

// leadClauses returns the figures of the first claims. Claims about causes come first, because
// most studies ask for a cause.
func leadClauses(s *analysis.Summary) (clauses []leadClause) {
	heads := map[string]bool{}
	for _, causes := range []bool{true, false} {
		for i := range s.Claims {
			c := &s.Claims[i]
			if causes != (len(c.Factors) > 0) || len(clauses) == maxLeadClauses {
				continue
			}
			if clause := newLeadClause(c); clause != nil && !heads[clause.head] {
				clauses, heads[clause.head] = append(clauses, *clause), true
			}
		}
	}
	return clauses
}

// newLeadClause returns nil if the claim's figures are of several kinds or at more than two places,
// or if the figures of two variants are missing.
func newLeadClause(c *compare.Claim) *leadClause {
	if len(c.Figures) < 2 {
		return nil
	}
	first := c.Figures[0]
	place := func(f compare.ClaimFigure) string {
		return fmt.Sprint(f.Part, f.Payload, f.Clients)
	}
	var places, variants []string
	var where []compare.ClaimFigure // the first figure of each place
	for _, f := range c.Figures {
		if f.Figure != first.Figure {
			return nil
		}
		if places = lists.AppendNew(places, place(f)); len(places) > len(where) {
			where = append(where, f)
		}
		variants = lists.AppendNew(variants, f.Variant)
	}
	if len(places) > 2 || len(variants) < 2 {
		return nil
	}
	clause := &leadClause{head: figureName(first.Figure) + placeText(where) + ": ", trials: math.MaxInt}
	for n, variant := range variants {
		var values []string
		for _, at := range places {
			i := slices.IndexFunc(c.Figures, func(f compare.ClaimFigure) bool { return f.Variant == variant && place(f) == at && f.Value != nil })
			if i < 0 {
				break
			}
			values = append(values, figureText(first.Figure, c.Figures[i].Value.Value))
			clause.trials = min(clause.trials, c.Figures[i].Trials)
		}
		if len(values) == len(places) {
			clause.items = append(clause.items, changeName(c, variant)+" "+strings.Join(values, " → "))
		} else if n == 0 {
			return nil // the other variants are compared with this one
		}
	}
	if len(clause.items) < 2 {
		return nil
	}
	return clause
}

// changeName names a variant by the factor that it changes.
func changeName(c *compare.Claim, variant string) string {
	for _, f := range c.Factors {
		if f.Variant == variant {
			return f.Name
		}
	}
	return variant
}

// placeText describes one or two places, such as " at 64 KiB, 1 → 48 clients".
func placeText(where []compare.ClaimFigure) string {
	both := func(of func(compare.ClaimFigure) string) string {
		texts := slices.Compact(lists.Map(where, of))
		return strings.Join(texts, " → ")
	}
	clients := both(func(f compare.ClaimFigure) string { return fmt.Sprint(f.Clients) }) + " clients"
	if clients == "1 clients" {
		clients = "1 client"
	}
	if size := both(func(f compare.ClaimFigure) string { return words.PayloadText(f.Payload) }); where[0].RequestBytes > 0 {
		return " at " + size + ", " + clients
	}
	return " with " + clients
}

func figureName(figure string) string {
	switch figure {
	case matrix.Tail:
		return "P99 over P50"
	case matrix.Mean:
		return "mean time"
	case matrix.CPU, "client-cpu", "server-cpu":
		return strings.ReplaceAll(strings.ReplaceAll(figure, "-", " "), "cpu", "CPU time per request")
	}
	if strings.HasPrefix(figure, "p") {
		return strings.ToUpper(figure)
	}
	return strings.ReplaceAll(figure, "-", " ")
}

// figureText formats a claim's figure with its unit.
func figureText(figure string, value float64) string {
	_, end, isOfEnd := strings.Cut(figure, "-")
	switch {
	case figure == matrix.Throughput:
		return words.Rate(value)
	case strings.HasSuffix(figure, "bytes"), strings.HasSuffix(figure, "memory"):
		return words.Size(value)
	case isOfEnd && slices.Contains([]string{"user", "gc", "assist"}, end), figure == "answered", figure == "busy":
		return words.Percent(value)
	case isOfEnd && slices.Contains([]string{"switches", "faults", "futex", "cores", "trips"}, end),
		slices.Contains([]string{matrix.Tail, "opened", "connections", "trips"}, figure):
		return units.Number(value)
	}
	return words.Micros(value)
}

// trialsEach warns of figures with too few trials for an interval.
func trialsEach(clauses []leadClause) string {
	least := clauses[0].trials
	for _, c := range clauses {
		least = min(least, c.trials)
	}
	switch {
	case least >= matrix.LeastTrials:
		return ""
	case least == 1:
		return "one trial each, so nothing is proven: "
	}
	return fmt.Sprintf("%d trials each, so nothing is proven: ", least)
}

// StudyLead answers a study's question in a few short lines, from the figures of its claims.
func StudyLead(s *analysis.Summary) []string {
	const maxLines = 2
	var lines []string
	for i, c := range leadClauses(s) {
		head := c.head
		if i == 0 && c.trials < matrix.LeastTrials {
			head = words.Count(c.trials, "trial") + " each: " + head
		}
		more := words.WrapLine(words.Capitalize(head) + strings.Join(c.items, ", "))
		if len(lines) > 0 && len(lines)+len(more) > maxLines {
			break
		}
		lines = append(lines, lists.Map(more, words.CutLine)...)
	}
	return lines
}

func quotedClaim(c *compare.Claim) string {
	text := "“" + c.Says + "”"
	if c.Row != "" {
		text += " (" + c.Row + ")"
	}
	return text
}

var outcomePhrases = map[compare.Outcome]string{
	compare.Compatible:   "compatible with what was measured here",
	compare.Larger:       "a larger effect here than claimed",
	compare.Smaller:      "a smaller effect here than claimed",
	compare.NotSeen:      "no such effect was seen here",
	compare.Refuted:      "refuted here",
	compare.Reversed:     "the opposite was found here",
	compare.NotConfirmed: "an effect here, but the cause is not confirmed",
	compare.NotTested:    "not put to the test here",
	compare.Underpowered: "undecided here",
	compare.Refused:      "measured here, but the figures were refused",
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

// claimCount answers the study's question, and counts the outcomes of its claims.
func claimCount(s *analysis.Summary) []string {
	if len(s.Claims) == 0 {
		return nil
	}
	return append(StudyLead(s), words.WrapLine(strings.Join(compare.CountOutcomes(s.Claims), " "))...)
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
