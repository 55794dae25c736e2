package advice

import (
	"cmp"
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

// searches says of every search which rate kept the goal, how exactly that is known,
// and who keeps more than the one before it.
func searches(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "search", func(c *matrix.Cell) bool { return c.IsValid() && c.Search != nil && !c.ForeignClient })
	slices.SortStableFunc(cells, func(a, b *matrix.Cell) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), a.Payload.Compare(b.Payload), cmp.Compare(a.Clients, b.Clients),
			cmp.Compare(b.Search.Kept.Value, a.Search.Kept.Value))
	})
	parts := rank.PartsOf(s)
	var sentences []string
	for i, c := range cells {
		text := highestRate(c)
		if i > 0 && sameSpot(cells[i-1], c) {
			at := slices.IndexFunc(parts, func(p *rank.Part) bool { return p.Name == c.Part })
			if lead, ok := parts[at].Against(c.Variant, cells[i-1].Variant, matrix.Throughput, rank.Point{Size: c.Payload, Clients: c.Clients}); ok {
				text += fmt.Sprintf("; %s keeps %s as much%s", cells[i-1].Variant, words.Times(lead.Times), rateDoubt(lead))
			}
		}
		sentences = append(sentences, text+".")
	}
	return sentences
}

func sameSpot(a, b *matrix.Cell) bool {
	return a.Part == b.Part && a.Payload == b.Payload && a.Clients == b.Clients
}

// rateDoubt says why a ratio of rates is not a verdict.
func rateDoubt(s rank.Rival) string {
	switch {
	case s.Times.Interval == nil:
		return ", in too few trials to be sure"
	case s.Verdict == compare.Equivalent:
		return ", which is the same within 5 %"
	case s.Verdict == compare.Undecided:
		return ", though not beyond doubt"
	}
	return ""
}

func highestRate(c *matrix.Cell) string {
	found := c.Search
	text := fmt.Sprintf("%s with %s: the highest rate that kept %s in two of up to three tries is %s",
		c.Variant, words.Clients(c.Clients), c.Load.Goal, words.Rate(found.Kept.Value))
	if i := found.Kept.Interval; i != nil {
		text += fmt.Sprintf(" (over %d searches, %s to %s)", c.Valid, units.Number(i.Low), words.Rate(i.High))
	}
	if half := found.Threshold; half.Interval != nil {
		text += fmt.Sprintf("; half of the tries keep it at %s (%s to %s)", words.Rate(half.Value), units.Number(half.Interval.Low), words.Rate(half.Interval.High))
	}
	if found.Why != "" {
		text += ", no closer because " + found.Why
	}
	knee := found.Knee
	if !knee.Found {
		return text + fmt.Sprintf("; the rate at which P%g begins to grow is unknown: %s", found.Percentile, knee.Reason)
	}
	return text + fmt.Sprintf("; P%g begins to grow at %s (%s to %s)", found.Percentile, words.Rate(*knee.Rate), units.Number(*knee.Low), words.Rate(*knee.High))
}

// overloads names the cells that were offered more than can be served.
func overloads(s *analysis.Summary) []string {
	cells := rank.CellsOf(s, func(c *matrix.Cell) bool { return !c.IsValid() && c.Capacity != nil })
	var texts []string
	for _, c := range cells {
		texts = append(texts, fmt.Sprintf("%s was offered %s and can do about %s", words.Under(c, cells), words.Rate(c.Load.RatePerSecond), words.Rate(c.Capacity.Value)))
	}
	return words.Sentence(words.Shortened(texts, "%d more were too"), "Beyond capacity, so that response times only tell how long it lasted: %s.")
}

// shownLoads is the most cells that each get a sentence of their own.
const shownLoads = 4

// bursts says how long bursts took to be answered, and whether all requests were.
func bursts(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.HasFigures() && c.Drain != nil })
	drained := slices.DeleteFunc(slices.Clone(cells), func(c *matrix.Cell) bool { return !c.IsValid() })
	if len(drained) == 0 {
		return nil
	}
	if len(drained) <= shownLoads {
		var sentences []string
		for _, c := range drained {
			middle := ""
			if median := c.ResponseTimes().P50.Value; !math.IsNaN(median) {
				middle = "; the one in the middle had its answer after " + words.Micros(median)
			}
			sentences = append(sentences, fmt.Sprintf("%s: %s at once drained in %s%s; %s.",
				words.Under(c, drained), units.Number(float64(c.Load.Burst)), words.Between(*c.Drain, words.Micros), middle, lost(c)))
		}
		return sentences
	}
	slices.SortStableFunc(drained, func(a, b *matrix.Cell) int { return cmp.Compare(a.Drain.Value, b.Drain.Value) })
	first, last := drained[0], drained[len(drained)-1]
	return []string{fmt.Sprintf("Of %d bursts, %s of %s drained first, in %s, and %s of %s last, in %s; %s.",
		len(drained), units.Number(float64(first.Load.Burst)), words.Under(first, drained), words.Micros(first.Drain.Value),
		units.Number(float64(last.Load.Burst)), words.Under(last, drained), words.Micros(last.Drain.Value), lostOf(cells))}
}

func lost(c *matrix.Cell) string {
	missing := c.Survival.Requests - c.Survival.Succeeded
	if missing == 0 {
		return "none was lost"
	}
	verb := "were"
	if missing == 1 {
		verb = "was"
	}
	return fmt.Sprintf("%s of %s %s lost", units.Thousands(missing), units.Thousands(c.Survival.Requests), verb) + words.WorstFailure(c)
}

func lostOf(cells []*matrix.Cell) string {
	var texts []string
	for _, c := range cells {
		if c.Survival.Succeeded < c.Survival.Requests {
			texts = append(texts, words.Under(c, cells)+": "+lost(c))
		}
	}
	return cmp.Or(strings.Join(texts, ", "), "none was lost")
}

// sustained says whether every request of a load that may lose none was
// answered.
func sustained(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	some := slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.Survival.Succeeded < c.Survival.Requests })
	if !some && len(cells) > shownLoads {
		return []string{fmt.Sprintf("Sustained load: every request was answered in all %d cells, %s.", len(cells), answered(cells[0]))}
	}
	var texts []string
	for _, c := range cells {
		if len(cells) > shownLoads && len(c.Survival.Failures) == 0 {
			continue // the sentence names only those that lost some
		}
		texts = append(texts, words.Under(c, cells)+" "+answered(c)+words.WorstFailure(c))
	}
	return words.Sentence(texts, "Sustained load, answered: %s.")
}

func answered(c *matrix.Cell) string {
	return fmt.Sprintf("%s of %s at %s", units.Thousands(c.Survival.Succeeded), units.Thousands(c.Survival.Requests), words.Rate(c.Load.RatePerSecond))
}

// burstLines say who drains a burst first, one line per size of burst.
func burstLines(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.IsValid() && c.Drain != nil })
	var lines []string
	for _, same := range lists.GroupBy(cells, func(c *matrix.Cell) int { return c.Load.Burst }) {
		cases := lists.GroupBy(same, func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Workload, c.Payload, c.Clients) })
		wins, lost := map[string]int{}, int64(0)
		for _, one := range cases {
			wins[slices.MinFunc(one, func(a, b *matrix.Cell) int { return cmp.Compare(a.Drain.Value, b.Drain.Value) }).Variant]++
			for _, c := range one {
				lost += c.Survival.Requests - c.Survival.Succeeded
			}
		}
		line := fmt.Sprintf("%s at once, first drained: %s", units.Number(float64(same[0].Load.Burst)), strings.Join(words.Shortened(words.Counted(wins, len(cases), "case"), "%d more"), ", "))
		lines = append(lines, words.Cut(line+"; "+units.Thousands(lost)+" requests lost."))
	}
	return lines
}

func sustainedLine(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	if len(cells) == 0 {
		return nil
	}
	losing := slices.DeleteFunc(slices.Clone(cells), func(c *matrix.Cell) bool { return c.Survival.Succeeded == c.Survival.Requests })
	head := fmt.Sprintf("Sustained %s: ", words.Rate(cells[0].Load.RatePerSecond))
	if len(losing) == 0 {
		return []string{head + "every request answered in " + words.Count(len(cells), "cell") + "."}
	}
	return words.Fill(head, lists.Map(losing, func(c *matrix.Cell) string {
		return fmt.Sprintf("%s answered %s", words.Under(c, cells), words.Percent(words.Kept(c)))
	}))
}

// searchLines gives the highest rates that kept a goal.
func searchLines(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "search", func(c *matrix.Cell) bool { return c.IsValid() && c.Search != nil && !c.ForeignClient })
	var lines []string
	for _, same := range lists.GroupBy(cells, func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Payload, c.Clients, c.Load.Goal) }) {
		slices.SortStableFunc(same, func(a, b *matrix.Cell) int { return cmp.Compare(b.Search.Kept.Value, a.Search.Kept.Value) })
		lines = append(lines, words.Fill(fmt.Sprintf("Keeps %s, %s: ", same[0].Load.Goal, words.Where(rank.Point{Size: same[0].Payload, Clients: same[0].Clients})),
			lists.Map(same, func(c *matrix.Cell) string { return c.Variant + " " + words.Between(c.Search.Kept, words.Rate) }))...)
	}
	return lines
}
