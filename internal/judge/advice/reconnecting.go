package advice

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// reconnections says which variants lose no request when every request opens a
// connection of its own, with the most clients that do so, and at what price.
func reconnections(p *rank.Part) []string {
	var most int
	for _, c := range p.Cells {
		if c.Connections.PerRequest && c.Survival.Requests > 0 {
			most = max(most, c.Clients)
		}
	}
	cells := slices.DeleteFunc(slices.Clone(p.Cells), func(c *matrix.Cell) bool {
		return !c.Connections.PerRequest || c.Clients != most || c.Survival.Requests == 0
	})
	variants := lists.GroupBy(cells, func(c *matrix.Cell) string { return c.Variant })
	if len(variants) == 0 {
		return nil
	}
	var whole, partly []string
	for _, ofVariant := range variants {
		losing := slices.DeleteFunc(slices.Clone(ofVariant), func(c *matrix.Cell) bool { return c.Survival.Succeeded == c.Survival.Requests })
		if len(losing) == 0 {
			whole = append(whole, ofVariant[0].Variant)
		}
		for _, c := range losing {
			partly = append(partly, fmt.Sprintf("%s answers %s of %s%s",
				words.Under(c, cells), units.Thousands(c.Survival.Succeeded), units.Thousands(c.Survival.Requests), words.WorstFailure(c)))
		}
	}
	var clauses []string
	if len(whole) > 0 {
		clauses = append(clauses, survive(whole, len(variants))+" without losing a request")
	}
	if len(partly) > 0 {
		clauses = append(clauses, words.List(partly))
	}
	return append(words.Sentence(clauses, "With %s and a connection a request %s.", words.Clients(most)), priceOf(p, most)...)
}

// survive says which of a number of variants survive.
func survive(variants []string, of int) string {
	switch {
	case len(variants) == of && of > words.ShownRivals:
		return fmt.Sprintf("all %d variants survive", of)
	case len(variants) == 1:
		return variants[0] + " survives"
	}
	return words.List(variants) + " survive"
}

// priceOf gives the cost of a request with a connection of its own at both ends, for the
// variants that begin each connection with a full handshake.
func priceOf(p *rank.Part, clients int) []string {
	if len(p.Sizes) == 0 {
		return nil
	}
	at := rank.Point{Size: p.Sizes[0], Clients: clients}
	fresh := *p
	fresh.Variants = nil
	for _, c := range p.CellsAt(at) {
		if c.Connection == string(scenario.New) {
			fresh.Variants = append(fresh.Variants, c.Variant)
		}
	}
	least, ok := fresh.Rank(matrix.CPU, at)
	if !ok || len(least.Rivals) == 0 {
		return nil
	}
	texts := make([]string, 0, words.ShownRivals)
	for _, other := range least.Rivals[:min(len(least.Rivals), words.ShownRivals)] {
		texts = append(texts, other.Variant+" "+words.Times(other.Times))
	}
	return []string{fmt.Sprintf("With conn=new such a request %scosts %s least%s: %s of CPU time at the client and the server; %s that.",
		words.AtSmallest(p), least.Best, words.DoubtOf(least), words.BothCPUs(p.Cell(least.Best, at)), words.List(texts))}
}

// otherConnections names the cells whose connections differ from the wanted ones, unless a
// check says so already.
func otherConnections(s *analysis.Summary) []string {
	var texts []string
	for _, c := range rank.CellsOf(s, func(c *matrix.Cell) bool { return c.Connections.Differs }) {
		if slices.ContainsFunc(c.Findings, func(f matrix.Finding) bool { return f.Name == "connections" }) {
			continue
		}
		text := c.Variant + " with " + words.Clients(c.Clients)
		if c.Connections.Achieved != nil {
			text += fmt.Sprintf(" began %s of its connections as %s", words.Percent(*c.Connections.Achieved), c.Connection)
		} else {
			text += " did not keep its connections"
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil
	}
	if more := len(texts) - words.ShownItems; more > 0 {
		texts = append(texts[:words.ShownItems:words.ShownItems], words.Count(more, "cell")+" more")
	}
	return []string{"Not the connections that were asked for: " + words.List(texts) + "."}
}

// lifecycleLines says which variants lose requests when each opens a connection of its own,
// and what keeping the connection saves.
func lifecycleLines(s *analysis.Summary, parts []*rank.Part) []string {
	var lines, whole []string
	n := 0
	for _, p := range parts {
		cells := slices.DeleteFunc(slices.Clone(p.Cells), func(c *matrix.Cell) bool {
			return !c.Connections.PerRequest || c.Survival.Requests == 0
		})
		losing := slices.DeleteFunc(slices.Clone(cells), func(c *matrix.Cell) bool { return c.Survival.Succeeded == c.Survival.Requests })
		switch {
		case len(losing) > 0:
			slices.SortStableFunc(losing, func(a, b *matrix.Cell) int { return cmp.Compare(words.Kept(a), words.Kept(b)) })
			lines = append(lines, words.Fill("Answered in "+p.Name+": ", lists.Map(losing, func(c *matrix.Cell) string { return words.Under(c, cells) + " " + words.Percent(words.Kept(c)) }))...)
		case len(cells) > 0:
			whole, n = append(whole, p.Name), n+len(cells)
		}
	}
	lines = append(lines, keepingBuys(s)...)
	if n > 0 {
		lines = append(lines, words.Fill(fmt.Sprintf("No request lost with a connection a request, in %s: ", words.Count(n, "cell")), whole)...)
	}
	return lines
}

// keepingBuys describes the stack that gains most by keeping its connections.
func keepingBuys(s *analysis.Summary) []string {
	var best *compare.Contrast
	gain := func(c *compare.Contrast) float64 {
		e, _ := c.Of(matrix.Throughput)
		return e.Ratio.Value
	}
	shown := shownContrasts(s.Contrasts)
	for i := range shown {
		if c := &shown[i]; c.Option == compare.ByConnection && (best == nil || gain(c) > gain(best)) {
			best = c
		}
	}
	if best == nil {
		return nil
	}
	rate, measured := best.Of(matrix.Throughput)
	if !measured {
		return nil
	}
	line := fmt.Sprintf("%s %s, not %s, %s: %s the throughput", best.Stack, best.To, best.From, words.Clients(best.Clients), words.Factor(rate.Ratio))
	if cpu, measured := best.Of(matrix.CPU); measured {
		line += ", " + units.Number(cpu.Ratio.Value) + "× the CPU"
	}
	return []string{words.Cut(line + ".")}
}
