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
		sentences = append(sentences, words.Capitalize(strings.Join(clauses, "; "))+".")
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

// maxLeadClauses is the number of claims whose figures answer a study's question. The sentences of
// the claims follow.
const maxLeadClauses = 2

// leadClauses returns the figures of the first claims. The first text warns of too few trials for an
// interval.
func leadClauses(s *analysis.Summary) (clauses []string) {
	for i := range s.Claims {
		if len(clauses) == maxLeadClauses {
			break
		}
		text, trials := leadClause(&s.Claims[i])
		head, _, _ := strings.Cut(text, ": ")
		if text == "" || slices.ContainsFunc(clauses, func(known string) bool { return strings.Contains(known, head+": ") }) {
			continue
		}
		if len(clauses) == 0 && trials < matrix.LeastTrials {
			text = words.Count(trials, "trial") + " each, so nothing is proven: " + text
		}
		clauses = append(clauses, text)
	}
	return clauses
}

// leadClause lists the measured figures of one claim, and returns the least number of trials of a
// figure. It returns "" if the figures are of several kinds or at more than two places, or if the
// figures of two variants are missing.
func leadClause(c *compare.Claim) (text string, trials int) {
	if len(c.Figures) < 2 {
		return "", 0
	}
	first := c.Figures[0]
	place := func(f compare.ClaimFigure) string {
		return fmt.Sprint(f.Part, f.Payload, f.Clients)
	}
	var places, variants, items []string
	var where []compare.ClaimFigure // the first figure of each place
	for _, f := range c.Figures {
		if f.Figure != first.Figure {
			return "", 0
		}
		if places = lists.AppendNew(places, place(f)); len(places) > len(where) {
			where = append(where, f)
		}
		variants = lists.AppendNew(variants, f.Variant)
	}
	trials = math.MaxInt
	for n, variant := range variants {
		var values []string
		for _, at := range places {
			i := slices.IndexFunc(c.Figures, func(f compare.ClaimFigure) bool { return f.Variant == variant && place(f) == at && f.Value != nil })
			if i < 0 {
				break
			}
			values = append(values, figureText(first.Figure, c.Figures[i].Value.Value))
			trials = min(trials, c.Figures[i].Trials)
		}
		if len(values) == len(places) {
			items = append(items, variant+" "+strings.Join(values, " → "))
		} else if n == 0 {
			return "", 0 // the other variants are compared with this one
		}
	}
	if len(places) > 2 || len(items) < 2 {
		return "", 0
	}
	return figureName(first.Figure) + placeText(where) + ": " + strings.Join(items, ", "), trials
}

// placeText describes one or two places, such as " at 64 KiB, 1 → 48 clients".
func placeText(where []compare.ClaimFigure) string {
	clients := slices.Compact(lists.Map(where, func(f compare.ClaimFigure) int { return f.Clients }))
	with := words.Clients(clients[len(clients)-1])
	if len(clients) > 1 {
		with = fmt.Sprintf("%d → %s", clients[0], with)
	}
	if where[0].RequestBytes > 0 {
		sizes := slices.Compact(lists.Map(where, func(f compare.ClaimFigure) string { return words.PayloadText(f.Payload) }))
		return " at " + strings.Join(sizes, " → ") + ", " + with
	}
	return " with " + with
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

// StudyLead answers a study's question in short lines, from the figures of its claims.
func StudyLead(s *analysis.Summary) []string {
	return lists.Map(leadClauses(s), func(clause string) string { return words.CutLine(words.Capitalize(clause)) })
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
	if c.But != "" {
		sentence += "; but " + c.But
	}
	if c.Ratio != nil {
		sentence += ". Computed as " + c.Find + " in " + c.Part
	}
	return sentence + "."
}

var shareNames = map[string]string{matrix.CPU: "CPU", matrix.Throughput: "throughput", matrix.Mean: "time"}

// shareSentences says how much each change adds to the difference between a part's first and last
// variant. In a closed loop, the throughput already says what the mean would.
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
	text := fmt.Sprintf("%s, for %s with %s", shareHead(d), d.Workload, words.Clients(d.Clients))
	if !d.Decided {
		return "Undecided: " + text + ", which may be no difference."
	}
	texts := lists.Map(d.Steps, func(step compare.ShareStep) string {
		share := words.WithInterval(*step.Share, units.Percent)
		switch {
		case step.Share.Interval == nil || !step.Decided:
			return step.Change + " undecided, " + share
		case step.Share.Value < 0:
			return step.Change + " " + share + ", a saving"
		}
		return step.Change + " " + share
	})
	return fmt.Sprintf("%s. Shares of this difference: %s.", text, strings.Join(texts, "; "))
}

// shareHead names a difference that is divided into shares.
func shareHead(d compare.Shares) string {
	text := fmt.Sprintf("%s over %s, %s %s", d.To, d.From, shareNames[d.Metric], words.FactorText(d.Ratio))
	if d.Ratio.Interval == nil {
		text += " (" + words.Count(d.Pairs, "trial") + ")"
	}
	return text
}

// shareLines lists each change of a difference in time, or else in CPU time, with the ratio of the
// variants after and before the change.
func shareLines(s *analysis.Summary) []string {
	for _, metric := range []string{matrix.Mean, matrix.CPU} {
		i := slices.IndexFunc(s.Shares, func(d compare.Shares) bool { return d.Metric == metric && len(d.Steps) > 0 })
		if i < 0 {
			continue
		}
		return words.FillLine(shareHead(s.Shares[i])+": ", lists.Map(s.Shares[i].Steps, func(step compare.ShareStep) string {
			change, _, _ := strings.Cut(strings.TrimPrefix(step.Change, "the "), " (")
			return change + " " + units.Number(step.Ratio.Value) + "×"
		}))
	}
	return nil
}

// claimCount answers the study's question, and counts the outcomes of its claims.
func claimCount(s *analysis.Summary) []string {
	if len(s.Claims) == 0 {
		return nil
	}
	return append(StudyLead(s), compare.CountOutcomes(s.Claims)...)
}

// stepLines names the sizes where a call's time jumps, and the changes that remove the jump. The
// first step between two sizes is of the part's first variant.
func stepLines(s *analysis.Summary) []string {
	groups := lists.GroupBy(s.Steps, func(step compare.Step) string {
		return fmt.Sprint(step.Part, step.From, step.To, step.Clients)
	})
	return lists.Map(groups, func(all []compare.Step) string {
		first := all[0]
		faults := "" // additional page faults of the larger message, if proven
		if first.Faults != nil && first.Faults.Interval != nil && first.Faults.Interval.Low > 0 {
			faults = fmt.Sprintf(", with %s more page faults", words.WithInterval(*first.Faults, units.Number))
		}
		text := fmt.Sprintf("%s to %s over %s: %s%s, %s", words.ExactSize(first.From), words.ExactSize(first.To), first.Variant, words.FactorText(first.Time), faults, stepWords[first.Outcome])
		for _, kind := range []compare.StepKind{compare.StepGone, compare.StepStays, compare.StepUndecided, compare.StepAppears} {
			if with := changesOf(all[1:], kind); len(with) > 0 {
				text += "; " + stepWords[kind] + " with " + words.List(with)
			}
		}
		return text + "."
	})
}

// stepWords has the outcomes of a part's first variant, and those of its changes.
var stepWords = map[compare.StepKind]string{
	compare.HasStep: "a step", compare.NoStep: "no step", compare.StepUndecided: "undecided",
	compare.StepGone: "gone", compare.StepStays: "not gone", compare.StepAppears: "a step",
}

// changesOf names the options that variants of a kind add to the first variant, with their ratios.
func changesOf(steps []compare.Step, kind compare.StepKind) (names []string) {
	for _, step := range steps {
		if step.Outcome == kind {
			added := step.Variant
			if rest, more := strings.CutPrefix(step.Variant, step.Base); more {
				added = strings.TrimLeft(rest, ":,")
			}
			names = append(names, added+" "+words.FactorText(step.Time))
		}
	}
	return names
}
