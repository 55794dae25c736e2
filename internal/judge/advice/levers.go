package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Levers says in at most seven lines why a cell is slow, if that is explained, and which levers move
// it. It ends with the lines to write into one's own program. Each run tests levers of the same cell;
// the last one may test two levers together. e may be nil.
func Levers(e *insight.Explanation, runs ...*analysis.Summary) []string {
	var tests []*compare.LeverTest
	for _, s := range runs {
		for i := range s.Levers {
			tests = append(tests, &s.Levers[i])
		}
	}
	if len(tests) == 0 {
		return nil
	}
	first := tests[0]
	helps, rest := splitLevers(first)
	var lines []string
	if len(helps) > 0 {
		lines = append(lines, fmt.Sprintf("Lever: %s: %s.", helps[0].Name, effectSentence(first, helps[0])))
		lines = append(lines, words.FillLine("Also: ", effectTexts(helps[1:]))...)
	} else {
		lines = append(lines, noLever(first, rest)...)
	}
	best := bestLever(tests, helps)
	lines = append(lines, togetherLine(tests)...)
	lines = append(lines, delayLine(first)...)
	lines = append(lines, otherLevers(rest, first)...)
	last := trustLine(runs[0])
	if best != nil {
		last = append(last, writeLines(best)...)
	}
	why := leverReason(e, first.Metric)
	lines = words.CutLines(slices.Concat(lines[:min(len(lines), max(1, words.MaxLines-len(why)-len(last)))], last))
	return slices.Concat(why, lines) // the cause stays whole
}

// leverReason says why the cell is slow, or why its slow calls are if the levers shall move the P99.
func leverReason(e *insight.Explanation, metric string) []string {
	switch {
	case e == nil:
		return nil
	case metric == matrix.P99 && e.Of.Tail != nil && e.Of.Tail.Refused == "":
		return whyLine([]string{tailSentence(e.Of)})
	}
	return whyLine(causeSentence(e))
}

// studyLever names the lever that moves a point of a study the most, if the study asks for levers.
func studyLever(s *analysis.Summary) []string {
	var of *compare.LeverTest
	var best *compare.LeverEffect
	for i := range s.Levers {
		t := &s.Levers[i]
		if helps, _ := splitLevers(t); len(helps) > 0 && (best == nil || helps[0].Ratio.Value < best.Ratio.Value) {
			of, best = t, helps[0]
		}
	}
	if best == nil {
		return nil
	}
	return []string{fmt.Sprintf("Lever: %s: over %s at %s with %s, %s.", best.Name, of.Plain, words.PayloadText(of.Payload), words.Clients(of.Clients), effectSentence(of, best))}
}

// splitLevers separates the levers that help from the others that were tried alone.
func splitLevers(t *compare.LeverTest) (helps, rest []*compare.LeverEffect) {
	for i := range t.Levers {
		switch e := &t.Levers[i]; {
		case e.Helps() && e.Both == nil:
			helps = append(helps, e)
		case e.Both == nil && !e.IsDelay:
			rest = append(rest, e)
		}
	}
	return helps, rest
}

// effectSentence says by how much a lever moves a call, and which share of a difference it removes.
func effectSentence(t *compare.LeverTest, e *compare.LeverEffect) string {
	text := fmt.Sprintf("calls take %s the time", words.FactorText(*e.Ratio))
	switch t.Metric {
	case matrix.P99:
		text = fmt.Sprintf("the P99 becomes %s", words.FactorText(*e.Ratio))
	case matrix.CPU:
		text = fmt.Sprintf("calls take %s the CPU time", words.FactorText(*e.Ratio))
	}
	if e.Share != nil {
		text += fmt.Sprintf(", which removes %s of the difference to %s", words.WithInterval(*e.Share, words.Percent), t.Against)
	}
	return text
}

func effectTexts(all []*compare.LeverEffect) []string {
	return lists.Map(all, func(e *compare.LeverEffect) string { return e.Name + " " + words.FactorText(*e.Ratio) })
}

// noLever says that no lever is proven to help, and how large an effect could be hidden.
func noLever(t *compare.LeverTest, tried []*compare.LeverEffect) []string {
	hidden, measured := 0.0, 0
	for _, e := range tried {
		if e.Ratio != nil && e.Ratio.Interval != nil {
			measured++
			hidden = max(hidden, 1-e.Ratio.Interval.Low)
		}
	}
	if measured == 0 {
		return []string{fmt.Sprintf("No lever is proven: too few valid trials of %s; CPU time can be compared on a busy machine: --of cpu.", words.Count(len(tried), "lever"))}
	}
	what := "make calls over " + t.Plain + " faster"
	if t.Metric == matrix.CPU {
		what = "save CPU time of calls over " + t.Plain
	}
	text := fmt.Sprintf("No lever moves it: none of %s is proven to %s", words.Count(measured, "lever"), what)
	if hidden >= leastHidden {
		return []string{fmt.Sprintf("%s; an effect of up to %s could still be found with more time (--budget).", text, words.Percent(hidden))}
	}
	return []string{text + ", by more than " + words.Percent(max(hidden, 0.01)) + "."}
}

// leastHidden is the smallest effect for which more time is worth it.
const leastHidden = 0.02

// togetherLine says what two levers do together, in the last test that has such a pair.
func togetherLine(tests []*compare.LeverTest) []string {
	t, e := pairOf(tests)
	if e == nil || e.Ratio == nil {
		return nil
	}
	text := fmt.Sprintf("Together: %s: %s", e.Name, effectSentence(t, e))
	switch beyond, excess := e.Beyond, e.Excess; {
	case !isBelowOne(beyond):
		text += fmt.Sprintf("; no gain over %s alone is proven", e.Both[0])
	case excess == nil || excess.Interval == nil:
	case excess.Interval.Low > 1:
		text += "; together they do less than both effects added up"
	case excess.Interval.High < 1:
		text += "; together they do more than both effects added up"
	default:
		text += "; the effects add up"
	}
	return []string{text + "."}
}

// delayLine says what a microsecond at each end is worth, and which end matters more if this is proven.
func delayLine(t *compare.LeverTest) []string {
	slopes := map[string]*matrix.Figure{}
	for i := range t.Levers {
		e := &t.Levers[i]
		if end, is := delayedEnd(e.Name); is && e.IsDelay && e.Slope != nil && e.Slope.Interval != nil {
			slopes[end] = e.Slope
		}
	}
	server, client := slopes["server"], slopes["client"]
	if server == nil || client == nil {
		return nil
	}
	show := func(us float64) string { return units.Number(us) + " µs" }
	text := fmt.Sprintf("Delays: 1 µs more per call at the server costs %s, at the client %s", words.WithInterval(*server, show), words.WithInterval(*client, show))
	switch {
	case server.Interval.Low > client.Interval.High:
		text += ": the server is the limit"
	case client.Interval.Low > server.Interval.High:
		text += ": the client is the limit"
	}
	return []string{text + "."}
}

// delayedEnd returns the end whose option has this name.
func delayedEnd(name string) (end string, is bool) {
	key, _, _ := strings.Cut(name, "=")
	end, is = map[string]string{scenario.BusyServerOption: "server", scenario.BusyClientOption: "client"}[key]
	return end, is
}

func pairOf(tests []*compare.LeverTest) (*compare.LeverTest, *compare.LeverEffect) {
	for _, t := range tests {
		for i := range t.Levers {
			if e := &t.Levers[i]; e.Both != nil {
				return t, e
			}
		}
	}
	return nil, nil
}

func isBelowOne(f *matrix.Figure) bool { return f != nil && f.Interval != nil && f.Interval.High < 1 }

// bestLever returns the lever to write into a program: two together if the second one adds to the
// first, or else the best one, or nil.
func bestLever(tests []*compare.LeverTest, helps []*compare.LeverEffect) *compare.LeverEffect {
	if _, pair := pairOf(tests); pair != nil && pair.Helps() && isBelowOne(pair.Beyond) {
		return pair
	}
	if len(helps) == 0 {
		return nil
	}
	return helps[0]
}

// otherLevers names the levers that harm, that move nothing, that are open, and that were not tried.
func otherLevers(rest []*compare.LeverEffect, t *compare.LeverTest) (lines []string) {
	var harm, none, open, missing []*compare.LeverEffect
	for _, e := range rest {
		switch {
		case e.Ratio == nil:
			missing = append(missing, e)
		case e.Harms():
			harm = append(harm, e)
		case e.Verdict == compare.Equivalent && e.Margin <= matrix.Margin:
			none = append(none, e)
		default:
			open = append(open, e)
		}
	}
	lines = append(lines, words.FillLine("Slower with: ", effectTexts(harm))...)
	lines = append(lines, words.FillLine("No effect above "+words.Percent(matrix.Margin)+": ", lists.Map(none, func(e *compare.LeverEffect) string { return e.Name }))...)
	lines = append(lines, words.FillLine("Nothing proven: ", effectTexts(open))...)
	left := lists.Map(missing, func(e *compare.LeverEffect) string { return e.Name + " (no valid trial)" })
	left = append(left, lists.Map(t.NotTried, func(l scenario.LeftOut) string { return l.Name })...)
	return append(lines, words.FillLine("Not tried: ", left)...)
}

// writeLines returns what to write into one's own program.
func writeLines(e *compare.LeverEffect) []string {
	do := "Do: write this into your program"
	if e.Costs != "" {
		do += "; the price: " + strings.ReplaceAll(e.Costs, "\n", "; ")
	}
	return append([]string{do + ":"}, lists.Map(strings.Split(e.Write, "\n"), func(line string) string { return words.CodeIndent + line })...)
}
