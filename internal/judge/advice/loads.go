package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// searchSentences writes the highest rate at which each variant kept the goal, and compares the
// rates.
func searchSentences(s *analysis.Summary) []string {
	cells := foundRateCells(s)
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
				text += fmt.Sprintf("; %s keeps %s as much%s", cells[i-1].Variant, words.TimesText(lead.Times), rateDoubt(lead))
			}
		}
		sentences = append(sentences, text+".")
	}
	return sentences
}

// foundRateCells returns the cells in which a search found the highest rate.
func foundRateCells(s *analysis.Summary) []*matrix.Cell {
	return rank.CellsUnder(s, "search", func(c *matrix.Cell) bool { return c.IsValid() && c.Search != nil && !c.ForeignClient })
}

// rateDoubt explains why the ratio of two rates does not prove that one rate is higher.
func rateDoubt(s rank.Rival) string {
	switch {
	case s.Times.Interval == nil:
		return ", in too few trials to be sure"
	case s.Verdict == compare.Equivalent:
		return ", which is the same within " + words.Share(s.Margin)
	case s.Verdict == compare.Undecided:
		return ", though not proven"
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
		text += fmt.Sprintf("; at %s (%s to %s) half of the tries keep the goal", words.Rate(half.Value), units.Number(half.Interval.Low), words.Rate(half.Interval.High))
	}
	if found.Why != "" {
		text += ", not narrowed further because " + found.Why
	}
	knee := found.Knee
	if !knee.Found {
		return text + fmt.Sprintf("; the rate at which P%g begins to grow is unknown: %s", found.Percentile, knee.Reason)
	}
	return text + fmt.Sprintf("; P%g begins to grow at %s (%s to %s)", found.Percentile, words.Rate(*knee.Rate), units.Number(*knee.Low), words.Rate(*knee.High))
}

// overloadSentence names the cells whose offered load exceeds their capacity.
func overloadSentence(s *analysis.Summary) []string {
	cells := rank.CellsOf(s, func(c *matrix.Cell) bool { return !c.IsValid() && c.Capacity != nil })
	texts := lists.Map(cells, func(c *matrix.Cell) string {
		return fmt.Sprintf("%s was offered %s and can serve about %s", words.DistinguishCell(c, cells), words.Rate(c.Load.RatePerSecond), words.Rate(c.Capacity.Value))
	})
	return words.Sentence(words.FirstItems(texts, "%d more were too"), "Beyond capacity, so response times only show how long the overload lasted: %s.")
}

// maxShownLoads is the largest number of cells that get a sentence each.
const maxShownLoads = 4

// burstSentences says how long each burst took, and how many requests were lost.
func burstSentences(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.HasFigures() && c.Drain != nil })
	drained := rank.Filter(cells, (*matrix.Cell).IsValid)
	size := func(c *matrix.Cell) string { return units.Number(float64(c.Load.Burst)) }
	if len(drained) <= maxShownLoads {
		return lists.Map(drained, func(c *matrix.Cell) string {
			middle := ""
			if median := c.ResponseTimes().P50.Value; !math.IsNaN(median) {
				middle = "; half were answered within " + words.Micros(median)
			}
			return fmt.Sprintf("%s: a burst of %s was answered in %s%s; %s.",
				words.DistinguishCell(c, drained), size(c), words.WithInterval(*c.Drain, words.Micros), middle, lostRequests(c))
		})
	}
	slices.SortStableFunc(drained, compareDrain)
	first, last := drained[0], drained[len(drained)-1]
	losses := lists.Map(rank.Filter(cells, hasLost), func(c *matrix.Cell) string { return words.DistinguishCell(c, cells) + ": " + lostRequests(c) })
	return []string{fmt.Sprintf("Of %d bursts, %s requests over %s were answered first, in %s, and %s over %s last, in %s; %s.",
		len(drained), size(first), words.DistinguishCell(first, drained), words.Micros(first.Drain.Value),
		size(last), words.DistinguishCell(last, drained), words.Micros(last.Drain.Value), cmp.Or(strings.Join(losses, ", "), "no request was lost"))}
}

func compareDrain(a, b *matrix.Cell) int { return cmp.Compare(a.Drain.Value, b.Drain.Value) }

func hasLost(c *matrix.Cell) bool { return c.Survival.Unanswered() > 0 }

func lostRequests(c *matrix.Cell) string {
	missing, verb := c.Survival.Unanswered(), "were"
	switch missing {
	case 0:
		return "no request was lost"
	case 1:
		verb = "was"
	}
	return fmt.Sprintf("%s of %s %s lost", units.Thousands(missing), units.Thousands(c.Survival.Requests), verb) + words.WorstFailure(c)
}

// sustainedSentence says how many requests of a sustained load were answered.
func sustainedSentence(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	shown := cells
	if len(cells) > maxShownLoads {
		if !slices.ContainsFunc(cells, hasLost) {
			return []string{fmt.Sprintf("Sustained load: every request was answered in all %d cells, %s.", len(cells), answeredRequests(cells[0]))}
		}
		shown = rank.Filter(cells, func(c *matrix.Cell) bool { return len(c.Survival.Failures) > 0 })
	}
	texts := lists.Map(shown, func(c *matrix.Cell) string {
		return words.DistinguishCell(c, cells) + " " + answeredRequests(c) + words.WorstFailure(c)
	})
	return words.Sentence(texts, "Sustained load, answered: %s.")
}

func answeredRequests(c *matrix.Cell) string {
	return fmt.Sprintf("%s of %s at %s", units.Thousands(c.Survival.Succeeded), units.Thousands(c.Survival.Requests), words.Rate(c.Load.RatePerSecond))
}

// burstLines counts for each burst size the cases in which each variant answers its burst first.
func burstLines(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.IsValid() && c.Drain != nil })
	return lists.Map(lists.GroupBy(cells, func(c *matrix.Cell) int { return c.Load.Burst }), func(same []*matrix.Cell) string {
		cases := lists.GroupBy(same, func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Workload, c.Payload, c.Clients) })
		wins, lost := map[string]int{}, int64(0)
		for _, one := range cases {
			wins[slices.MinFunc(one, compareDrain).Variant]++
			for _, c := range one {
				lost += c.Survival.Unanswered()
			}
		}
		line := fmt.Sprintf("bursts of %s, answered first by: %s", units.Number(float64(same[0].Load.Burst)), strings.Join(words.FirstItems(words.CountedLeads(wins, len(cases), "case"), "%d more"), ", "))
		return words.CutLine(line + "; " + units.Thousands(lost) + " requests lost.")
	})
}

func sustainedLine(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	if len(cells) == 0 {
		return nil
	}
	losing := rank.Filter(cells, hasLost)
	head := fmt.Sprintf("Sustained %s: ", words.Rate(cells[0].Load.RatePerSecond))
	if len(losing) == 0 {
		return []string{head + "every request answered in " + words.Count(len(cells), "cell") + "."}
	}
	return words.FillLine(head, lists.Map(losing, func(c *matrix.Cell) string {
		return fmt.Sprintf("%s answered %s", words.DistinguishCell(c, cells), words.Percent(words.AnsweredShare(c)))
	}))
}

func searchLines(s *analysis.Summary) []string {
	var lines []string
	for _, same := range lists.GroupBy(foundRateCells(s), func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Payload, c.Clients, c.Load.Goal) }) {
		slices.SortStableFunc(same, func(a, b *matrix.Cell) int { return cmp.Compare(b.Search.Kept.Value, a.Search.Kept.Value) })
		lines = append(lines, words.FillLine(fmt.Sprintf("Keeps %s, %s: ", same[0].Load.Goal, words.PointText(rank.Point{Size: same[0].Payload, Clients: same[0].Clients})),
			lists.Map(same, func(c *matrix.Cell) string { return c.Variant + " " + words.WithInterval(c.Search.Kept, words.Rate) }))...)
	}
	return lines
}

// linkLines describes emulated links: the fastest variant, the slowdown by packet loss, and the
// round trips until a new connection's first answer.
func linkLines(s *analysis.Summary) []string {
	linked := rank.CellsOf(s, func(c *matrix.Cell) bool { return c.IsValid() && c.Network.Link != "" && !c.ForeignClient })
	return slices.Concat(fastestByLink(s, linked), slowdownByLoss(linked), handshakeTripLine(linked))
}

// minLinks is the smallest number of links for which a line counts the fastest variants.
const minLinks = 3

// fastestByLink counts the links over which each variant has the shortest mean for the same calls.
func fastestByLink(s *analysis.Summary, linked []*matrix.Cell) []string {
	alike := lists.GroupBy(linked, func(c *matrix.Cell) record.Cell {
		same := c.Cell
		same.Part, same.Stack, same.Variant, same.Connection, same.Network = "", "", "", "", record.Network{}
		return same
	})
	most := slices.MaxFunc(append(alike, nil), func(a, b []*matrix.Cell) int { return len(a) - len(b) })
	wins := map[string]int{}
	compared, sure := 0, 0
	for _, there := range lists.GroupBy(most, func(c *matrix.Cell) string { return c.Part }) {
		if len(there) < 2 {
			continue
		}
		wins[shortestMean(there).Variant]++
		compared++
		if s.Fastest(there) != nil {
			sure++
		}
	}
	if compared < minLinks {
		return nil
	}
	var names []string
	for _, c := range rank.Filter(most, func(c *matrix.Cell) bool { return wins[c.Variant] > 0 }) {
		names = lists.AppendNew(names, c.Variant)
	}
	slices.SortStableFunc(names, func(a, b string) int { return wins[b] - wins[a] })
	return words.FillLine(fmt.Sprintf("Fastest variant on %d links (%d proven): ", compared, sure),
		lists.Map(names, func(name string) string { return fmt.Sprintf("%s on %d", name, wins[name]) }))
}

// fastestOverEach compares one kind of call over several links, or over a link and the loopback.
func fastestOverEach(s *analysis.Summary, main *rank.Part, parts []*rank.Part) []string {
	networks := lists.GroupBy(parts, func(p *rank.Part) record.Network { return p.Cells[0].Network })
	if len(networks) < 2 || len(main.Sizes)*len(main.Clients) != 1 {
		return nil
	}
	var items []string
	for _, p := range parts {
		valid := rank.Filter(p.Cells, (*matrix.Cell).IsValid)
		if len(valid) < 2 {
			continue
		}
		item := shortestMean(valid).Variant + " over " + cmp.Or(valid[0].Network.Link, "loopback")
		if s.Fastest(valid) == nil {
			item = "perhaps " + item
		}
		items = append(items, item)
	}
	return words.FillLine("Fastest: ", items)
}

func shortestMean(cells []*matrix.Cell) *matrix.Cell {
	return slices.MinFunc(cells, func(a, b *matrix.Cell) int {
		return cmp.Compare(a.ResponseTimes().Mean.Value, b.ResponseTimes().Mean.Value)
	})
}

// slowdownByLoss returns how many times longer scheduled calls take over a link that loses packets
// than over the same link without loss. It ignores closed loops, which send fewer calls if calls
// take longer.
func slowdownByLoss(linked []*matrix.Cell) []string {
	type longer struct {
		variant string
		times   float64
	}
	var all []longer
	var loss float64
	lossy := rank.Filter(linked, func(c *matrix.Cell) bool { return c.Network.Up.Loss > 0 && c.Load.RatePerSecond > 0 })
	secure := !slices.ContainsFunc(lossy, func(c *matrix.Cell) bool { return !c.Connections.Secure })
	for _, c := range lossy {
		clean := slices.IndexFunc(linked, func(other *matrix.Cell) bool { return isSameWithoutLoss(other.Cell, c.Cell) })
		if clean < 0 || loss != 0 && loss != c.Network.Up.Loss {
			continue
		}
		loss = c.Network.Up.Loss
		name := c.Variant
		if secure { // all variants use TLS, so their names omit it
			name = strings.TrimSuffix(name, ",tls=on")
		}
		all = append(all, longer{name, c.ResponseTimes().Mean.Value / linked[clean].ResponseTimes().Mean.Value})
	}
	slices.SortStableFunc(all, func(a, b longer) int { return cmp.Compare(b.times, a.times) })
	return words.FillLine("Calls take longer with "+words.Percent(loss)+" loss: ",
		lists.Map(all, func(l longer) string { return fmt.Sprintf("%s %s×", l.variant, units.Number(l.times)) }))
}

// isSameWithoutLoss reports whether clean has no packet loss and otherwise equals lossy.
func isSameWithoutLoss(clean, lossy record.Cell) bool {
	if clean.Network.Up.Loss != 0 || clean.Network.Down.Loss != 0 {
		return false
	}
	for _, c := range []*record.Cell{&clean, &lossy} {
		c.Part, c.Network.Link = "", ""
		c.Network.Up.Loss, c.Network.Down.Loss = 0, 0
	}
	return clean == lossy
}

// handshakeTripLine gives the median time of a call on a new connection, in round trips of the
// link.
func handshakeTripLine(linked []*matrix.Cell) []string {
	cells := rank.Filter(linked, func(c *matrix.Cell) bool {
		return c.Connections.PerRequest && c.Network.DelayNS != 0 && !math.IsNaN(c.ResponseTimes().P50.Value)
	})
	trips := func(c *matrix.Cell) float64 {
		return c.ResponseTimes().P50.Value * 1e3 / float64(2*c.Network.DelayNS)
	}
	slices.SortStableFunc(cells, func(a, b *matrix.Cell) int { return cmp.Compare(trips(a), trips(b)) })
	return words.FillLine("Round trips until a new connection's first answer: ",
		lists.Map(cells, func(c *matrix.Cell) string { return fmt.Sprintf("%s %.1f", c.Variant, trips(c)) }))
}
