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
	if s.Invalid+s.Failed == 0 {
		return nil
	}
	why := ""
	if reasons := reasonTexts(s, record.Invalid); len(reasons) > 0 {
		why = ": " + strings.Join(reasons, "; ")
	}
	without := rank.CellsOf(s, func(c *matrix.Cell) bool { return !c.IsValid() })
	if len(without) == len(s.Cells) {
		return []string{"Use no figure of this run, because no trial is valid" + why + "."}
	}
	text := fmt.Sprintf("Invalid and left out: %d of %s", s.Invalid, words.Count(s.Measured(), "trial"))
	if s.Failed > 0 {
		text += fmt.Sprintf("; failed: %d", s.Failed)
	}
	text += why + "."
	if len(without) > 0 {
		names := lists.Map(without, func(c *matrix.Cell) string {
			return c.Variant + " " + words.SizeClause(c.Payload) + "with " + words.Clients(c.Clients)
		})
		text += " Cells without a valid trial: " + words.List(words.FirstItems(names, "%d more")) + "."
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
	level         record.Level
	spoils        string // the figures that the check spoils; empty means all figures
	trials        int
}

// reasons returns the checks that gave this level, sorted by descending number of trials.
func reasons(s *analysis.Summary, level record.Level) []reason {
	var all []reason
	add := func(one reason) {
		lists.FindOrAdd(&all, reason{name: one.name, example: one.example, level: level, spoils: one.spoils}, func(r reason) bool { return r.name == one.name }).trials += one.trials
	}
	for _, c := range s.Cells {
		for _, f := range c.Findings {
			if f.Level == level {
				add(reason{name: f.Name, example: f.Detail, spoils: f.Spoils, trials: f.Trials})
			}
		}
		if c.Failure != "" && level == record.Invalid {
			failed := slices.DeleteFunc(slices.Clone(c.Repeats), func(r matrix.Repeat) bool { return r.MeanUS != nil })
			add(reason{name: "no measurement", example: c.Failure, trials: c.Trials - len(c.Repeats) + len(failed)})
		}
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.trials, a.trials) })
	return all
}

// rejudgedTrials counts the trials whose validity has changed since they were measured, with the
// reasons, and names the checks that could not judge again.
func rejudgedTrials(s *analysis.Summary) []string {
	r := s.Rejudged
	if r == nil {
		return nil
	}
	var sentences, changes, kept []string
	for _, c := range r.Changes {
		if c.ChangesValidity {
			changes = append(changes, fmt.Sprintf("%s in %s (%s)", c.Check, words.Count(c.Trials, "trial"), c.Detail))
		}
	}
	if count := rejudgedCount(s); len(count) > 0 {
		sentences = append(sentences, strings.Join(append(count, words.Sentence(words.FirstItems(changes, "and %d more"), "Why: %s.")...), " "))
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
	return []string{fmt.Sprintf("Judged again by this version: %s now invalid, %d now valid.", words.Count(r.NowInvalid, "trial"), r.NowValid)}
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
	slices.SortStableFunc(needs, func(a, b curves.WarmUpNeed) int { return cmp.Compare(a.Needed.Value, b.Needed.Value) })
	middle, last := needs[len(needs)/2], needs[len(needs)-1]
	text := fmt.Sprintf("A warm-up of %s would have been enough in the median cell; the slowest (%s, %s) needs %s",
		words.Micros(1e3*middle.Needed.Value), last.Variant, words.PointText(rank.Point{Size: last.Payload, Clients: last.Clients}), words.Micros(1e3*last.Needed.Value))
	if settled < trials {
		text += fmt.Sprintf("; %d of %d trials did not become steady", trials-settled, trials)
	}
	return []string{text + "."}
}

// repeatGoal names the goal at which a run stops repeating, and says whether the run reached it.
func repeatGoal(s *analysis.Summary) []string {
	u := s.Until
	if u == nil || u.Check() != nil {
		return nil
	}
	goal := "every comparison of the mean was decided"
	switch {
	case u.Width > 0:
		goal = "each mean was known within " + units.Percent(u.Width)
	case u.Claims:
		goal = "every claim was decided"
	}
	last := u.Looks[u.Begun-1]
	text := fmt.Sprintf("Repeated until %s: look %d of at most %d", goal, u.Begun, len(u.Looks))
	switch {
	case last.Open == nil || last.Of == nil || u.Ended == "":
		text += " was not finished, and the trials are judged as if at that look"
	case u.Ended == record.EndedAnswered || *last.Open == 0: // or the end of the looks closed the last gap
		text += ", after " + words.Count(last.Repeats, "repeat")
	default:
		text += "; " + openAfterLooks(u) + ", because " + whyEnded[u.Ended]
	}
	return []string{text + ". Verdicts and intervals are corrected for repeated looks."}
}

// whyEnded says why a run ended before its goal.
var whyEnded = map[string]string{
	record.EndedRepeats: "no more repeats were allowed",
	record.EndedByTime:  "no time was left for more",
	record.EndedNothing: "more repeats would not decide them",
}

func openAfterLooks(u *record.Until) string {
	what := "comparisons of the mean"
	switch {
	case u.Width > 0:
		what = "means"
	case u.Claims:
		what = "claims"
	}
	last := u.Looks[u.Begun-1]
	verb := "are"
	if *last.Open == 1 {
		verb = "is"
	}
	return fmt.Sprintf("after %s %d of %d %s %s still open", words.Count(last.Repeats, "repeat"), *last.Open, *last.Of, what, verb)
}

// missedGoal says how much was open when the run ended. Claims have their own count.
func missedGoal(s *analysis.Summary) []string {
	u := s.Until
	if u == nil || u.Check() != nil || u.Claims || u.Ended == record.EndedAnswered || u.Looks[u.Begun-1].Open == nil || u.Looks[u.Begun-1].Of == nil || *u.Looks[u.Begun-1].Open == 0 {
		return nil
	}
	return []string{words.Capitalize(openAfterLooks(u)) + "."}
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
	difference := units.Percent(p.Findable)
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
		text += fmt.Sprintf("; %s takes about %d", units.Percent(p.Difference), *p.PairsForDifference)
	}
	return text + "."
}
