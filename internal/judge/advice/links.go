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
	"wirelab.dev/internal/judge/analysis/matrix"
)

// linkLines says what links did: who is fastest over them, whose calls lost packets make
// longer, and how many round trips a new connection takes to its first answer.
func linkLines(s *analysis.Summary) []string {
	linked := rank.CellsOf(s, func(c *matrix.Cell) bool { return c.IsValid() && c.Network.Link != "" && !c.ForeignClient })
	return slices.Concat(fastestByLink(s, linked), lengthenedByLoss(linked), tripsOfNew(linked))
}

// leastLinks is the fewest links for a line about who is fastest.
const leastLinks = 3

// fastestByLink says how often each variant has the shortest mean for the same calls over several
// links.
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
	if compared < leastLinks {
		return nil
	}
	var names []string
	for _, c := range rank.Keep(most, func(c *matrix.Cell) bool { return wins[c.Variant] > 0 }) {
		names = lists.AppendNew(names, c.Variant)
	}
	slices.SortStableFunc(names, func(a, b string) int { return wins[b] - wins[a] })
	return words.Fill(fmt.Sprintf("Fastest of %d links (%d beyond doubt): ", compared, sure),
		lists.Map(names, func(name string) string { return fmt.Sprintf("%s on %d", name, wins[name]) }))
}

// fastestOverEach compares one kind of call over several links, or over one and the loopback.
func fastestOverEach(s *analysis.Summary, main *rank.Part, parts []*rank.Part) []string {
	networks := lists.GroupBy(parts, func(p *rank.Part) record.Network { return p.Cells[0].Network })
	if len(networks) < 2 || len(main.Sizes)*len(main.Clients) != 1 {
		return nil
	}
	var items []string
	for _, p := range parts {
		valid := rank.Keep(p.Cells, (*matrix.Cell).IsValid)
		if len(valid) < 2 {
			continue
		}
		item := shortestMean(valid).Variant + " over " + cmp.Or(valid[0].Network.Link, "loopback")
		if s.Fastest(valid) == nil {
			item = "perhaps " + item
		}
		items = append(items, item)
	}
	return words.Fill("Fastest: ", items)
}

func shortestMean(cells []*matrix.Cell) *matrix.Cell {
	return slices.MinFunc(cells, func(a, b *matrix.Cell) int {
		return cmp.Compare(a.ResponseTimes().Mean.Value, b.ResponseTimes().Mean.Value)
	})
}

// lengthenedByLoss compares calls that follow a schedule, over a link that loses packets and
// over the same one that does not: how many times longer they are. In a closed loop fewer
// calls would be sent.
func lengthenedByLoss(linked []*matrix.Cell) []string {
	type longer struct {
		variant string
		times   float64
	}
	var all []longer
	var loss float64
	lossy := rank.Keep(linked, func(c *matrix.Cell) bool { return c.Network.Up.Loss > 0 && c.Load.RatePerSecond > 0 })
	secure := !slices.ContainsFunc(lossy, func(c *matrix.Cell) bool { return !c.Connections.Secure })
	for _, c := range lossy {
		clean := slices.IndexFunc(linked, func(other *matrix.Cell) bool { return isSameWithoutLoss(other.Cell, c.Cell) })
		if clean < 0 || loss != 0 && loss != c.Network.Up.Loss {
			continue
		}
		loss = c.Network.Up.Loss
		name := c.Variant
		if secure { // all of them are, which need not be said of each
			name = strings.TrimSuffix(name, ",tls=on")
		}
		all = append(all, longer{name, c.ResponseTimes().Mean.Value / linked[clean].ResponseTimes().Mean.Value})
	}
	slices.SortStableFunc(all, func(a, b longer) int { return cmp.Compare(b.times, a.times) })
	return words.Fill("Longer with "+words.Percent(loss)+" loss: ",
		lists.Map(all, func(l longer) string { return fmt.Sprintf("%s %s×", l.variant, units.Number(l.times)) }))
}

// isSameWithoutLoss reports whether a cell is another's, over a link that loses nothing.
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

// tripsOfNew gives the median call in round trips of the link, for a connection per call.
func tripsOfNew(linked []*matrix.Cell) []string {
	cells := rank.Keep(linked, func(c *matrix.Cell) bool {
		return c.Connections.PerRequest && c.Network.DelayNS != 0 && !math.IsNaN(c.ResponseTimes().P50.Value)
	})
	trips := func(c *matrix.Cell) float64 {
		return c.ResponseTimes().P50.Value * 1e3 / float64(2*c.Network.DelayNS)
	}
	slices.SortStableFunc(cells, func(a, b *matrix.Cell) int { return cmp.Compare(trips(a), trips(b)) })
	return words.Fill("Round trips to a new connection's answer: ",
		lists.Map(cells, func(c *matrix.Cell) string { return fmt.Sprintf("%s %.1f", c.Variant, trips(c)) }))
}
