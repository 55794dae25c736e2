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

// searches says which rate kept each search's goal, how exactly, and who keeps more than the next.
func searches(s *analysis.Summary) []string {
	cells := searched(s)
	slices.SortStableFunc(cells, func(a, b *matrix.Cell) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), a.Payload.Compare(b.Payload), cmp.Compare(a.Clients, b.Clients),
			cmp.Compare(b.Search.Kept.Value, a.Search.Kept.Value))
	})
	parts := rank.PartsOf(s)
	var sentences []string
	for i, c := range cells {
		text := highestRate(c)
		if i > 0 && cells[i-1].Part == c.Part && cells[i-1].Payload == c.Payload && cells[i-1].Clients == c.Clients {
			at := slices.IndexFunc(parts, func(p *rank.Part) bool { return p.Name == c.Part })
			if lead, ok := parts[at].Against(c.Variant, cells[i-1].Variant, matrix.Throughput, rank.Point{Size: c.Payload, Clients: c.Clients}); ok {
				text += fmt.Sprintf("; %s keeps %s as much%s", cells[i-1].Variant, words.Times(lead.Times), rateDoubt(lead))
			}
		}
		sentences = append(sentences, text+".")
	}
	return sentences
}

// searched returns the cells whose rate was searched for and found.
func searched(s *analysis.Summary) []*matrix.Cell {
	return rank.CellsUnder(s, "search", func(c *matrix.Cell) bool { return c.IsValid() && c.Search != nil && !c.ForeignClient })
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
	texts := lists.Map(cells, func(c *matrix.Cell) string {
		return fmt.Sprintf("%s was offered %s and can do about %s", words.Under(c, cells), words.Rate(c.Load.RatePerSecond), words.Rate(c.Capacity.Value))
	})
	return words.Sentence(words.Shortened(texts, "%d more were too"), "Beyond capacity, so that response times only tell how long it lasted: %s.")
}

// shownLoads is the most cells that each get a sentence of their own.
const shownLoads = 4

// bursts says how long bursts took to be answered, and whether all requests were.
func bursts(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.HasFigures() && c.Drain != nil })
	drained := rank.Keep(cells, (*matrix.Cell).IsValid)
	size := func(c *matrix.Cell) string { return units.Number(float64(c.Load.Burst)) }
	if len(drained) <= shownLoads {
		return lists.Map(drained, func(c *matrix.Cell) string {
			middle := ""
			if median := c.ResponseTimes().P50.Value; !math.IsNaN(median) {
				middle = "; the one in the middle had its answer after " + words.Micros(median)
			}
			return fmt.Sprintf("%s: %s at once drained in %s%s; %s.",
				words.Under(c, drained), size(c), words.Between(*c.Drain, words.Micros), middle, lost(c))
		})
	}
	slices.SortStableFunc(drained, byDrain)
	first, last := drained[0], drained[len(drained)-1]
	losses := lists.Map(rank.Keep(cells, hasLost), func(c *matrix.Cell) string { return words.Under(c, cells) + ": " + lost(c) })
	return []string{fmt.Sprintf("Of %d bursts, %s of %s drained first, in %s, and %s of %s last, in %s; %s.",
		len(drained), size(first), words.Under(first, drained), words.Micros(first.Drain.Value),
		size(last), words.Under(last, drained), words.Micros(last.Drain.Value), cmp.Or(strings.Join(losses, ", "), "none was lost"))}
}

func byDrain(a, b *matrix.Cell) int { return cmp.Compare(a.Drain.Value, b.Drain.Value) }

func hasLost(c *matrix.Cell) bool { return c.Survival.Lost() > 0 }

func lost(c *matrix.Cell) string {
	missing, verb := c.Survival.Lost(), "were"
	switch missing {
	case 0:
		return "none was lost"
	case 1:
		verb = "was"
	}
	return fmt.Sprintf("%s of %s %s lost", units.Thousands(missing), units.Thousands(c.Survival.Requests), verb) + words.WorstFailure(c)
}

// sustained says whether every request of a load that may lose none was answered.
func sustained(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	shown := cells
	if len(cells) > shownLoads {
		if !slices.ContainsFunc(cells, hasLost) {
			return []string{fmt.Sprintf("Sustained load: every request was answered in all %d cells, %s.", len(cells), answered(cells[0]))}
		}
		shown = rank.Keep(cells, func(c *matrix.Cell) bool { return len(c.Survival.Failures) > 0 })
	}
	texts := lists.Map(shown, func(c *matrix.Cell) string { return words.Under(c, cells) + " " + answered(c) + words.WorstFailure(c) })
	return words.Sentence(texts, "Sustained load, answered: %s.")
}

func answered(c *matrix.Cell) string {
	return fmt.Sprintf("%s of %s at %s", units.Thousands(c.Survival.Succeeded), units.Thousands(c.Survival.Requests), words.Rate(c.Load.RatePerSecond))
}

// burstLines say who drains a burst first, one line per size of burst.
func burstLines(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.IsValid() && c.Drain != nil })
	return lists.Map(lists.GroupBy(cells, func(c *matrix.Cell) int { return c.Load.Burst }), func(same []*matrix.Cell) string {
		cases := lists.GroupBy(same, func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Workload, c.Payload, c.Clients) })
		wins, lost := map[string]int{}, int64(0)
		for _, one := range cases {
			wins[slices.MinFunc(one, byDrain).Variant]++
			for _, c := range one {
				lost += c.Survival.Lost()
			}
		}
		line := fmt.Sprintf("%s at once, first drained: %s", units.Number(float64(same[0].Load.Burst)), strings.Join(words.Shortened(words.Counted(wins, len(cases), "case"), "%d more"), ", "))
		return words.Cut(line + "; " + units.Thousands(lost) + " requests lost.")
	})
}

func sustainedLine(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	if len(cells) == 0 {
		return nil
	}
	losing := rank.Keep(cells, hasLost)
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
	var lines []string
	for _, same := range lists.GroupBy(searched(s), func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Payload, c.Clients, c.Load.Goal) }) {
		slices.SortStableFunc(same, func(a, b *matrix.Cell) int { return cmp.Compare(b.Search.Kept.Value, a.Search.Kept.Value) })
		lines = append(lines, words.Fill(fmt.Sprintf("Keeps %s, %s: ", same[0].Load.Goal, words.Where(rank.Point{Size: same[0].Payload, Clients: same[0].Clients})),
			lists.Map(same, func(c *matrix.Cell) string { return c.Variant + " " + words.Between(c.Search.Kept, words.Rate) }))...)
	}
	return lines
}
