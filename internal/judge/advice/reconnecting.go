package advice

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// reconnections says which variants lose no request when every request opens a
// connection of its own, with the most clients that do so, and at what price.
func reconnections(p *part) []string {
	var most int
	for _, c := range p.cells {
		if c.Connections.PerRequest && c.Survival.Requests > 0 {
			most = max(most, c.Clients)
		}
	}
	cells := slices.DeleteFunc(slices.Clone(p.cells), func(c *matrix.Cell) bool {
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
				under(c, cells), units.Thousands(c.Survival.Succeeded), units.Thousands(c.Survival.Requests), worstFailure(c)))
		}
	}
	var clauses []string
	if len(whole) > 0 {
		clauses = append(clauses, survive(whole, len(variants))+" without losing a request")
	}
	if len(partly) > 0 {
		clauses = append(clauses, list(partly))
	}
	return append(sentence(clauses, "With %s and a connection a request %s.", clients(most)), p.price(most)...)
}

// survive is a clause about the variants that do, of so many.
func survive(variants []string, of int) string {
	switch {
	case len(variants) == of && of > shownRivals:
		return fmt.Sprintf("all %d variants survive", of)
	case len(variants) == 1:
		return variants[0] + " survives"
	}
	return list(variants) + " survive"
}

// price says what a request with a connection of its own costs both ends, for the
// variants that begin each connection with a full handshake.
func (p *part) price(clients int) []string {
	if len(p.sizes) == 0 {
		return nil
	}
	at := point{p.sizes[0], clients}
	fresh := *p
	fresh.variants = nil
	for _, c := range p.cellsAt(at) {
		if c.Connection == string(scenario.New) {
			fresh.variants = append(fresh.variants, c.Variant)
		}
	}
	least, ok := fresh.rank(matrix.CPU, at)
	if !ok || len(least.rivals) == 0 {
		return nil
	}
	texts := make([]string, 0, shownRivals)
	for _, other := range least.rivals[:min(len(least.rivals), shownRivals)] {
		texts = append(texts, other.variant+" "+times(other.times))
	}
	return []string{fmt.Sprintf("With conn=new such a request %scosts %s least%s: %s of CPU time at the client and the server; %s that.",
		p.atSmallest(), least.best, least.doubt(), bothCPUs(p.cell(least.best, at)), list(texts))}
}

// otherConnections names the cells whose connections were not what was asked for,
// unless a check says so already.
func otherConnections(s *analysis.Summary) []string {
	var texts []string
	for _, c := range cellsOf(s, func(c *matrix.Cell) bool { return c.Connections.Differs }) {
		if slices.ContainsFunc(c.Findings, func(f matrix.Finding) bool { return f.Name == "connections" }) {
			continue
		}
		text := c.Variant + " with " + clients(c.Clients)
		if c.Connections.Achieved != nil {
			text += fmt.Sprintf(" began %s of its connections as %s", percent(*c.Connections.Achieved), c.Connection)
		} else {
			text += " did not keep its connections"
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil
	}
	if more := len(texts) - shownItems; more > 0 {
		texts = append(texts[:shownItems:shownItems], count(more, "cell")+" more")
	}
	return []string{"Not the connections that were asked for: " + list(texts) + "."}
}

// lifecycleLines say which variants lose requests when each opens a connection of its own,
// and what keeping the connection buys.
func lifecycleLines(s *analysis.Summary, parts []*part) []string {
	var lines, whole []string
	n := 0
	for _, p := range parts {
		cells := slices.DeleteFunc(slices.Clone(p.cells), func(c *matrix.Cell) bool {
			return !c.Connections.PerRequest || c.Survival.Requests == 0
		})
		losing := slices.DeleteFunc(slices.Clone(cells), func(c *matrix.Cell) bool { return c.Survival.Succeeded == c.Survival.Requests })
		switch {
		case len(losing) > 0:
			slices.SortStableFunc(losing, func(a, b *matrix.Cell) int { return cmp.Compare(kept(a), kept(b)) })
			lines = append(lines, filled("Answered in "+p.name+": ", lists.Map(losing, func(c *matrix.Cell) string { return under(c, cells) + " " + percent(kept(c)) }))...)
		case len(cells) > 0:
			whole, n = append(whole, p.name), n+len(cells)
		}
	}
	lines = append(lines, keepingBuys(s)...)
	if n > 0 {
		lines = append(lines, filled(fmt.Sprintf("No request lost with a connection a request, in %s: ", count(n, "cell")), whole)...)
	}
	return lines
}

// kept is the share of requests that were answered.
func kept(c *matrix.Cell) float64 {
	return float64(c.Survival.Succeeded) / float64(c.Survival.Requests)
}

// keepingBuys is of the stack that gains most by keeping its connections.
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
	line := fmt.Sprintf("%s %s, not %s, %s: %s the throughput", best.Stack, best.To, best.From, clients(best.Clients), timesAs(rate.Ratio))
	if cpu, measured := best.Of(matrix.CPU); measured {
		line += ", " + number(cpu.Ratio.Value) + "× the CPU"
	}
	return []string{cut(line + ".")}
}
