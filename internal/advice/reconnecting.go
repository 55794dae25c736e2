package advice

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/analysis"
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
	cells := slices.DeleteFunc(slices.Clone(p.cells), func(c *analysis.Cell) bool {
		return !c.Connections.PerRequest || c.Clients != most || c.Survival.Requests == 0
	})
	variants := grouped(cells, func(c *analysis.Cell) string { return c.Variant })
	if len(variants) == 0 {
		return nil
	}
	var whole, partly []string
	var answered int64 // by those that lost none
	for _, sizes := range variants {
		var requests, succeeded int64
		worst := "" // what most of its failed requests met
		for _, c := range sizes {
			requests += c.Survival.Requests
			succeeded += c.Survival.Succeeded
			if failures := c.Survival.Failures; len(failures) > 0 {
				worst = cmp.Or(worst, failures[0].Class, failures[0].Code)
			}
		}
		if succeeded == requests {
			whole = append(whole, sizes[0].Variant)
			answered += requests
			continue
		}
		text := fmt.Sprintf("%s answers %s of %s", sizes[0].Variant, percent(float64(succeeded)/float64(requests)), number(float64(requests)))
		if worst != "" {
			text += " (" + worst + ")"
		}
		partly = append(partly, text)
	}
	var clauses []string
	if len(whole) > 0 {
		clauses = append(clauses, fmt.Sprintf("%s without losing one of %s requests", survive(whole, len(variants)), number(float64(answered))))
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
	costs := slices.DeleteFunc(p.cellsAt(point{p.sizes[0], clients}), func(c *analysis.Cell) bool {
		return c.Connection != "new" || c.ClientCPU == nil || c.ServerCPU == nil
	})
	if len(costs) < 2 {
		return nil
	}
	slices.SortStableFunc(costs, func(a, b *analysis.Cell) int { return cmp.Compare(sumCPU(a), sumCPU(b)) })
	least := costs[0]
	texts := make([]string, 0, shownRivals)
	for _, c := range costs[1:min(len(costs), 1+shownRivals)] {
		texts = append(texts, fmt.Sprintf("%s %s times", c.Variant, number(sumCPU(c)/sumCPU(least))))
	}
	return []string{fmt.Sprintf("Such a request costs %s least, %s of CPU time at both ends together; %s that.",
		least.Variant, micros(sumCPU(least)), list(texts))}
}

// otherConnections names the cells whose connections were not what was asked for,
// unless a check says so already.
func otherConnections(s *analysis.Summary) []string {
	var texts []string
	for _, c := range cellsOf(s, func(c *analysis.Cell) bool { return c.Connections.Differs }) {
		if slices.ContainsFunc(c.Findings, func(f analysis.Finding) bool { return f.Name == "connections" }) {
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
