package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func partialNotice(s *analysis.Summary) []string {
	switch {
	case !s.IsPartial():
		return nil
	case s.Done == 0:
		return []string{fmt.Sprintf("None of %d planned trials has ended, so nothing can be judged yet.", s.Planned)}
	}
	return []string{fmt.Sprintf("This run is partial: all figures come from %d of %d planned trials.", s.Done, s.Planned)}
}

// hasInvalidEnd reports whether a cell with the fewest or the most clients has no valid trial.
func hasInvalidEnd(p *rank.Part) bool {
	clients := lists.Map(p.Cells, func(c *matrix.Cell) int { return c.Clients })
	return slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool {
		return !c.IsValid() && (c.Clients == slices.Min(clients) || c.Clients == slices.Max(clients))
	})
}

// invalidTrials counts invalid and failed trials, and names the reasons.
func invalidTrials(s *analysis.Summary) []string {
	trials := words.Count(s.Done, "trial")
	var out []string
	if s.Invalid > 0 {
		verb := "are"
		if s.Invalid == 1 {
			verb = "is"
		}
		out = append(out, fmt.Sprintf("%d of %s %s invalid and left out", s.Invalid, trials, verb))
	}
	if s.Failed > 0 {
		out = append(out, fmt.Sprintf("%d of %s failed", s.Failed, trials))
	}
	if len(out) == 0 {
		return nil
	}
	why := ""
	if reasons := reasonTexts(s, record.Invalid); len(reasons) > 0 {
		why = ": " + strings.Join(reasons, "; ")
	}
	names := lists.Map(rank.CellsOf(s, func(c *matrix.Cell) bool { return !c.IsValid() }), func(c *matrix.Cell) string {
		return c.Variant + " " + words.SizeClause(c.Payload) + "with " + words.Clients(c.Clients)
	})
	if len(names) == len(s.Cells) {
		return []string{"Use no figure of this run, because no trial is valid" + why + "."}
	}
	text := words.List(out) + why + "."
	if len(names) > 0 {
		text += fmt.Sprintf(" Cells without a valid trial: %s.", words.List(words.FirstItems(names, "%d more")))
	}
	return []string{text}
}

// cautions lists warnings in valid trials.
func cautions(s *analysis.Summary) []string {
	return words.Sentence(reasonTexts(s, record.Warning), "Valid, but with warnings: %s.")
}

// reasonTexts describes the checks that gave this level, each with an example.
func reasonTexts(s *analysis.Summary, level record.Level) []string {
	texts := lists.Map(reasons(s, level), func(r reason) string {
		return fmt.Sprintf("%s in %s (%s)", r.name, words.Count(r.trials, "trial"), r.example)
	})
	if more := len(texts) - words.MaxShownItems; more > 0 {
		texts = append(texts[:words.MaxShownItems], "and "+words.Count(more, "other check"))
	}
	return texts
}

// A reason is a check that reported a problem in some trials.
type reason struct {
	name, example string
	trials        int
}

// reasons returns the checks that gave this level, sorted by descending number of trials.
func reasons(s *analysis.Summary, level record.Level) []reason {
	var all []reason
	add := func(one reason) {
		lists.FindOrAdd(&all, reason{name: one.name, example: one.example}, func(r reason) bool { return r.name == one.name }).trials += one.trials
	}
	for _, c := range s.Cells {
		for _, f := range c.Findings {
			if f.Level == level {
				add(reason{f.Name, f.Detail, f.Trials})
			}
		}
		if c.Failure != "" && level == record.Invalid {
			failed := slices.DeleteFunc(slices.Clone(c.Repeats), func(r matrix.Repeat) bool { return r.MeanUS != nil })
			add(reason{"no measurement", c.Failure, c.Trials - len(c.Repeats) + len(failed)})
		}
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.trials, a.trials) })
	return all
}

// rejudgedTrials lists trials whose judgement has changed since they were measured.
func rejudgedTrials(s *analysis.Summary) []string {
	r := s.Rejudged
	if r == nil {
		return nil
	}
	var sentences, nowInvalid, nowValid, all, kept []string
	for _, c := range r.Changes {
		text := fmt.Sprintf("%s in %s (%s)", c.Check, words.Count(c.Trials, "trial"), c.Detail)
		all = append(all, text)
		if c.ChangesValidity && c.Level == record.Invalid {
			nowInvalid = append(nowInvalid, text)
		}
		if c.ChangesValidity && c.Stored == record.Invalid {
			nowValid = append(nowValid, text)
		}
	}
	say := func(reasons []string, format string, args ...any) {
		sentences = append(sentences, fmt.Sprintf(format, append(args, strings.Join(words.FirstItems(reasons, "and %d more"), "; "))...))
	}
	if r.NowInvalid > 0 {
		say(nowInvalid, "Invalid by this version's rules, and valid when measured: %s. Why: %s.", words.Count(r.NowInvalid, "trial"))
	}
	if r.NowValid > 0 {
		say(nowValid, "Valid by this version's rules, and invalid when measured: %s. Why they were invalid: %s.", words.Count(r.NowValid, "trial"))
	}
	if len(sentences) == 0 && len(all) > 0 {
		say(all, "This version's rules change no trial's validity, but change the level of some checks: %s.")
	}
	for _, k := range r.Kept {
		kept = append(kept, fmt.Sprintf("%s (%s)", k.Check, words.Count(k.Trials, "trial")))
	}
	if len(kept) > 0 {
		slices.Sort(kept)
		sentences = append(sentences, "Not judged again, because the records lack the check's figures: "+words.List(kept)+".")
	}
	return sentences
}

// rejudgedCount counts the trials whose validity has changed since they were measured.
func rejudgedCount(s *analysis.Summary) []string {
	r := s.Rejudged
	if r == nil || r.NowInvalid+r.NowValid == 0 {
		return nil
	}
	count := func(n int) string {
		if n == 0 {
			return "none"
		}
		return words.Count(n, "trial")
	}
	return []string{fmt.Sprintf("Judged again by this version: %s now invalid, %s now valid.", count(r.NowInvalid), count(r.NowValid))}
}

// warmUpSentence says how long a warm-up must be. It prefers parts that were measured without a
// warm-up, because they show this best.
func warmUpSentence(s *analysis.Summary) []string {
	needs := slices.Clone(s.WarmUps)
	beganCold := func(n curves.WarmUpNeed) bool {
		return slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool {
			return c.Part == n.Part && c.Variant == n.Variant && c.Payload == n.Payload && c.Clients == n.Clients && c.WarmUp.Value == 0
		})
	}
	if slices.ContainsFunc(needs, beganCold) {
		needs = slices.DeleteFunc(needs, func(n curves.WarmUpNeed) bool { return !beganCold(n) })
	}
	trials, settled := 0, 0
	for _, n := range needs {
		trials, settled = trials+n.Trials, settled+n.Settled
	}
	if trials == 0 {
		return nil
	}
	needs = slices.DeleteFunc(needs, func(n curves.WarmUpNeed) bool { return n.Settled == 0 })
	if len(needs) == 0 {
		return []string{"No trial became steady, so its figures may depend on the warm-up: use a longer warm-up."}
	}
	middle, last := medianAndMost(needs, func(n curves.WarmUpNeed) float64 { return n.Needed.Value })
	text := fmt.Sprintf("A warm-up of %s and %s requests would have been enough in the median cell; the slowest (%s, %s) needs %s and %s",
		words.Micros(1e3*middle.Needed.Value), units.Number(middle.NeededCalls.Value), last.Variant, words.PointText(rank.Point{Size: last.Payload, Clients: last.Clients}),
		words.Micros(1e3*last.Needed.Value), units.Number(last.NeededCalls.Value))
	if settled < trials {
		text += fmt.Sprintf("; %d of %d trials did not become steady", trials-settled, trials)
	}
	if needs = slices.DeleteFunc(needs, func(n curves.WarmUpNeed) bool { return n.FirstOver == nil }); len(needs) > 0 {
		middle, last = medianAndMost(needs, func(n curves.WarmUpNeed) float64 { return n.FirstOver.Value })
		text += fmt.Sprintf("; calls of the first 100 ms took %s times as long as later calls in the median cell, and %s times at most",
			units.Number(middle.FirstOver.Value), units.Number(last.FirstOver.Value))
	}
	return []string{text + "."}
}

func medianAndMost(needs []curves.WarmUpNeed, by func(curves.WarmUpNeed) float64) (median, most curves.WarmUpNeed) {
	slices.SortStableFunc(needs, func(a, b curves.WarmUpNeed) int { return cmp.Compare(by(a), by(b)) })
	return needs[len(needs)/2], needs[len(needs)-1]
}

// repeatGoal names the goal at which a run stops repeating, and says whether the run reached it.
func repeatGoal(s *analysis.Summary) []string {
	u := s.Until
	if u == nil || u.Check() != nil {
		return nil
	}
	goal, counted := "every comparison of the mean was decided", "comparisons are decided"
	switch {
	case u.Width > 0:
		goal, counted = "each mean was known within "+words.Share(u.Width), "means are known"
	case u.Claims:
		goal, counted = "every claim was decided", "claims are"
	}
	last := u.Looks[u.Begun-1]
	where := fmt.Sprintf("look %d of at most %d, after %s", u.Begun, len(u.Looks), words.Count(last.Repeats, "repeat"))
	if last.Open == nil || last.Of == nil || u.Ended == "" {
		return []string{fmt.Sprintf("Repeated until %s, but ended before %s: the trials are judged as if at that look.", goal, where)}
	}
	why := "no more repeats were allowed"
	switch {
	case u.Ended == record.EndedAnswered:
		return []string{fmt.Sprintf("Repeated until %s: at %s. Verdicts and intervals are corrected for repeated looks.", goal, where)}
	case u.Ended == record.EndedNothing && !u.Claims:
		return []string{fmt.Sprintf("Repeated until %s, but at %s, no trial was valid.", goal, where)}
	case u.Ended == record.EndedNothing:
		why = "more repeats would decide none of the others"
	case u.Ended == record.EndedByTime:
		why = "no time was left for more"
	}
	return []string{fmt.Sprintf("Repeated until %s, but at %s, %d of %d %s, and %s. Verdicts and intervals are corrected for repeated looks.",
		goal, where, *last.Of-*last.Open, *last.Of, counted, why)}
}

// undecidedCount counts the undecided comparisons. It leaves out claims; see claimCount.
func undecidedCount(s *analysis.Summary) []string {
	u := s.Until
	if u == nil || u.Check() != nil || u.Ended == record.EndedAnswered || u.Claims {
		return nil
	}
	last := u.Looks[u.Begun-1]
	if last.Open == nil || last.Of == nil {
		return nil
	}
	what := "comparisons of the mean"
	if u.Width > 0 {
		what = "means"
	}
	return []string{fmt.Sprintf("After %s %d of %d %s are still open.", words.Count(last.Repeats, "repeat"), *last.Open, *last.Of, what)}
}

// powerSentences states the smallest difference of the mean that the run's repeats can detect.
func powerSentences(s *analysis.Summary) []string {
	i := slices.IndexFunc(s.Powers, func(p compare.Power) bool { return p.Metric == matrix.Mean })
	open := slices.ContainsFunc(s.Comparisons, func(c compare.Comparison) bool { return c.Metric == matrix.Mean && c.IsOpen() })
	if i < 0 || !open {
		return nil
	}
	return []string{DescribePower(&s.Powers[i], s.Powers[i].Pairs)}
}

// DescribePower states in one sentence the smallest difference that a number of repeats can tell, and
// how many repeats tell a smaller one. A nil p means that this is unknown.
func DescribePower(p *compare.Power, repeats int) string {
	if p == nil {
		return "One run with 3 repeats or more will show how small a difference this machine can tell."
	}
	difference := words.Share(p.Findable)
	if p.Findable >= 1 {
		difference = "a factor of " + units.Number(1+p.Findable)
	}
	if p.Metric == matrix.Throughput {
		difference += " of throughput"
	}
	text := fmt.Sprintf("With %s this machine can tell %s apart", words.Count(p.Pairs, p.Unit), difference)
	if repeats < p.Pairs {
		text = fmt.Sprintf("With %s this machine can tell nothing apart; with %d it can tell %s", words.Count(repeats, p.Unit), p.Pairs, difference)
	}
	if p.PairsForDifference != nil {
		text += fmt.Sprintf("; %s takes about %d", words.Share(p.Difference), *p.PairsForDifference)
	}
	return text + "."
}
