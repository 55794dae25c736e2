package advice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
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
				text += "; " + words.RivalText(lead.Variant, lead)
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

// burstSentences says how long each of a few bursts took. Of many bursts it says who was first.
func burstSentences(s *analysis.Summary) []string {
	drained := drainedBursts(s)
	if len(drained) > maxShownLoads {
		return burstLines(s)
	}
	return lists.Map(drained, func(c *matrix.Cell) string {
		text := fmt.Sprintf("%s: a burst of %s was answered in %s", words.DistinguishCell(c, drained), units.Number(float64(c.Load.Burst)), words.WithInterval(*c.Drain, words.Micros))
		if median := c.ResponseTimes().P50.Value; !math.IsNaN(median) {
			text += "; half were answered within " + words.Micros(median)
		}
		return text + "; " + lostRequests(c) + "."
	})
}

// burstLines counts for each burst size the cases in which each variant answers its burst first.
func burstLines(s *analysis.Summary) []string {
	return lists.Map(lists.GroupBy(drainedBursts(s), func(c *matrix.Cell) int { return c.Load.Burst }), func(same []*matrix.Cell) string {
		cases := lists.GroupBy(same, func(c *matrix.Cell) string { return fmt.Sprint(c.Part, c.Workload, c.Payload, c.Clients) })
		firsts := lists.Map(cases, func(one []*matrix.Cell) string {
			return slices.MinFunc(one, func(a, b *matrix.Cell) int { return cmp.Compare(a.Drain.Value, b.Drain.Value) }).Variant
		})
		wins := lists.GroupBy(firsts, func(variant string) string { return variant })
		slices.SortStableFunc(wins, func(a, b []string) int { return len(b) - len(a) })
		names := words.FirstItems(lists.Map(wins, func(w []string) string { return fmt.Sprintf("%s in %d", w[0], len(w)) }), "%d more")
		lost := words.FirstItems(lists.Map(rank.Filter(same, hasLost), func(c *matrix.Cell) string { return words.DistinguishCell(c, same) + ": " + lostRequests(c) }), "%d more")
		return fmt.Sprintf("Bursts of %s, answered first by: %s; %s.", units.Number(float64(same[0].Load.Burst)), strings.Join(names, ", "), cmp.Or(strings.Join(lost, ", "), "no request was lost"))
	})
}

func drainedBursts(s *analysis.Summary) []*matrix.Cell {
	return rank.CellsUnder(s, "burst", func(c *matrix.Cell) bool { return c.IsValid() && c.Drain != nil })
}

func hasLost(c *matrix.Cell) bool { return c.Survival.Unanswered() > 0 }

// lostRequests counts the requests without an answer, and names the worst failure.
func lostRequests(c *matrix.Cell) string {
	if !hasLost(c) {
		return "no request was lost"
	}
	return fmt.Sprintf("%s of %s requests were lost", units.Thousands(c.Survival.Unanswered()), units.Thousands(c.Survival.Requests)) + words.WorstFailure(c)
}

// answeredShares names the cells that lost requests, the worst first.
func answeredShares(head string, cells []*matrix.Cell) []string {
	losing := rank.Filter(cells, hasLost)
	share := func(c *matrix.Cell) float64 { return float64(c.Survival.Succeeded) / float64(c.Survival.Requests) }
	slices.SortStableFunc(losing, func(a, b *matrix.Cell) int { return cmp.Compare(share(a), share(b)) })
	items := lists.Map(losing, func(c *matrix.Cell) string {
		return fmt.Sprintf("%s %s of %s%s", words.DistinguishCell(c, cells), units.Thousands(c.Survival.Succeeded), units.Thousands(c.Survival.Requests), words.WorstFailure(c))
	})
	if len(items) == 0 {
		return nil
	}
	return []string{head + strings.Join(words.FirstItems(items, "%d more"), ", ") + "."}
}

// sustainedLine says how many requests of a sustained load were answered.
func sustainedLine(s *analysis.Summary) []string {
	cells := rank.CellsUnder(s, "sustained", func(c *matrix.Cell) bool { return c.Survival.Requests > 0 })
	if len(cells) == 0 {
		return nil
	}
	head := fmt.Sprintf("Sustained %s: ", words.Rate(cells[0].Load.RatePerSecond))
	if !slices.ContainsFunc(cells, hasLost) {
		return []string{head + "every request answered in " + words.Count(len(cells), "cell") + "."}
	}
	return answeredShares(head+"answered ", cells)
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

// linkLines describes emulated links: the slowdown by packet loss, and the round trips until a new
// connection's first answer.
func linkLines(s *analysis.Summary) []string {
	linked := rank.CellsOf(s, func(c *matrix.Cell) bool { return c.IsValid() && c.Network.Link != "" && !c.ForeignClient })
	return append(slowdownByLoss(linked), handshakeTripLine(linked)...)
}

// maxShownLinks is the largest number of links that a line names one by one.
const maxShownLinks = 2

// fastestOverLinks names the fastest variant over each link, or counts the links of each variant. It
// compares the kind of call that was measured over most links. The loopback counts as a link.
func fastestOverLinks(s *analysis.Summary) []string {
	cells := rank.CellsOf(s, func(c *matrix.Cell) bool { return c.IsValid() && !c.ForeignClient })
	alike := lists.GroupBy(cells, func(c *matrix.Cell) record.Cell {
		same := c.Cell
		same.Part, same.Stack, same.Variant, same.Connection, same.Network = "", "", "", "", record.Network{}
		return same
	})
	most := slices.MaxFunc(append(alike, nil), func(a, b []*matrix.Cell) int { return len(a) - len(b) })
	var items []string
	wins := map[string]int{}
	proven := 0
	for _, there := range lists.GroupBy(most, func(c *matrix.Cell) record.Network { return c.Network }) {
		if len(there) < 2 {
			continue
		}
		best := slices.MinFunc(there, func(a, b *matrix.Cell) int {
			return cmp.Compare(a.ResponseTimes().Mean.Value, b.ResponseTimes().Mean.Value)
		})
		item := best.Variant + " over " + cmp.Or(best.Network.Link, "loopback")
		if s.Fastest(there) == nil {
			item = "perhaps " + item
		} else {
			proven++
		}
		items = append(items, item)
		wins[best.Variant]++
	}
	switch n := len(items); {
	case n < 2:
		return nil
	case n <= maxShownLinks:
		return words.FillLine("Fastest: ", items)
	default:
		names := slices.SortedFunc(maps.Keys(wins), func(a, b string) int { return cmp.Or(wins[b]-wins[a], cmp.Compare(a, b)) })
		return words.FillLine(fmt.Sprintf("Fastest variant on %d links (%d proven): ", n, proven),
			lists.Map(names, func(name string) string { return fmt.Sprintf("%s on %d", name, wins[name]) }))
	}
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
