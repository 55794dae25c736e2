package advice

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// claims says of each claim of the scenario whether it holds here, and on which evidence.
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
		sentences = append(sentences, "Without its yardstick, which is measured where `run --yardstick` asks for it, nothing can be said here to "+words.List(unasked)+".")
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
	compare.Larger:       "a larger effect here than is claimed",
	compare.Smaller:      "a smaller effect here than is claimed",
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
		sentence += "; three repeats or more can tell"
	case c.NeededPairs == nil:
		sentence += "; it is so close to the border between two answers that 10,000 repeats might not tell"
	default:
		sentence += fmt.Sprintf("; about %d repeats would tell", *c.NeededPairs)
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
	matrix.CPU:        "CPU time a request, of both ends,",
	matrix.Throughput: "throughput",
	matrix.Mean:       "the mean time of a call",
}

// shares says what makes up the difference between a part's first variant and its last: by CPU
// time, and by throughput and time as far as these differ at all.
func shares(s *analysis.Summary) []string {
	var sentences []string
	for _, difference := range s.Shares {
		if difference.Metric != matrix.CPU && !difference.Decided {
			continue
		}
		if difference.Metric == matrix.Mean && rank.ClosedLoop(s, difference.Part) {
			continue // the throughput, seen from the other side
		}
		sentences = append(sentences, shareSentence(difference))
	}
	return sentences
}

func shareSentence(d compare.Shares) string {
	where := fmt.Sprintf("%s of %s over %s's, %s with %s", shareNames[d.Metric], d.To, d.From, d.Workload, words.Clients(d.Clients))
	switch {
	case d.Ratio.Interval == nil:
		return fmt.Sprintf("What makes up %s, is undecided: %s in too few repeats to be sure.", where, words.Times(d.Ratio))
	case !d.Decided:
		return fmt.Sprintf("Undecided: %s: %s, which may be none, so there is nothing to share out.", where, words.Times(d.Ratio))
	}
	texts := make([]string, len(d.Steps))
	for i, step := range d.Steps {
		texts[i] = step.Change + " "
		switch {
		case step.Share.Interval == nil || !step.Decided:
			texts[i] += fmt.Sprintf("undecided, %s", words.Between(*step.Share, words.Share))
		case step.Share.Value < 0:
			texts[i] += fmt.Sprintf("%s, a saving", words.Between(*step.Share, words.Share))
		default:
			texts[i] += words.Between(*step.Share, words.Share)
		}
	}
	return fmt.Sprintf("%s: %s. Of this difference have %s.", words.Upper(where), words.Times(d.Ratio), strings.Join(texts, "; "))
}

// shareLines says what makes up a difference, in CPU time or else in time.
func shareLines(s *analysis.Summary) []string {
	for _, metric := range []string{matrix.Mean, matrix.CPU} {
		for _, d := range s.Shares {
			if d.Metric != metric || len(d.Steps) == 0 {
				continue
			}
			what := map[string]string{matrix.Mean: "time", matrix.CPU: "CPU"}[metric]
			ratio := words.Factor(d.Ratio)
			if d.Ratio.Interval == nil {
				ratio += " (" + words.Count(d.Pairs, "trial") + ")"
			}
			return words.Fill(fmt.Sprintf("%s over %s, %s %s: ", d.To, d.From, what, ratio), shareSteps(d.Steps))
		}
	}
	return nil
}

// shareSteps lists the changes one after the other, each with its ratio to what the changes
// before it came to.
func shareSteps(steps []compare.ShareStep) []string {
	items := make([]string, len(steps))
	for i, step := range steps {
		change, _, _ := strings.Cut(strings.TrimPrefix(step.Change, "the "), " (") // what it is of stands behind
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
