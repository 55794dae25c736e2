package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// survivor is how a variant fares with the most clients that reconnect, over
// all sizes.
type survivor struct {
	variant             string
	requests, succeeded int64
	worst               string // what most of its failed requests met
}

// storm says who survives when every request opens a connection of its own, and
// at what price.
func storm(f *field) []string {
	var most int
	for _, c := range f.cells {
		if c.Connections.PerRequest && c.Survival.Requests > 0 {
			most = max(most, c.Clients)
		}
	}
	survivors := f.survivors(most)
	if len(survivors) == 0 {
		return nil
	}
	var whole, partly []string
	for _, s := range survivors {
		if s.succeeded == s.requests {
			whole = append(whole, s.variant)
			continue
		}
		text := fmt.Sprintf("%s answers %s of %s", s.variant, percent(float64(s.succeeded)/float64(s.requests)), number(float64(s.requests)))
		if s.worst != "" {
			text += " (" + s.worst + ")"
		}
		partly = append(partly, text)
	}
	var clauses []string
	if len(whole) > 0 {
		clauses = append(clauses, fmt.Sprintf("%s without losing one of %s requests", survive(whole, len(survivors)), number(float64(f.asked(survivors, whole)))))
	}
	if len(partly) > 0 {
		clauses = append(clauses, list(partly))
	}
	sentence := fmt.Sprintf("With %s and a connection a request %s.", clients(most), strings.Join(clauses, "; "))
	return append([]string{sentence}, f.price(most)...)
}

// survive names those that do, of so many that were asked to.
func survive(variants []string, of int) string {
	switch {
	case len(variants) == of && of > shownRivals:
		return fmt.Sprintf("all %d variants survive", of)
	case len(variants) == 1:
		return variants[0] + " survives"
	}
	return list(variants) + " survive"
}

// asked is how many requests those that survive were asked to answer, all
// together.
func (f *field) asked(survivors []survivor, whole []string) int64 {
	var n int64
	for _, s := range survivors {
		if slices.Contains(whole, s.variant) {
			n += s.requests
		}
	}
	return n
}

func (f *field) survivors(clients int) []survivor {
	var all []survivor
	for _, c := range f.cells {
		if !c.Connections.PerRequest || c.Clients != clients || c.Survival.Requests == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(s survivor) bool { return s.variant == c.Variant })
		if i < 0 {
			i = len(all)
			all = append(all, survivor{variant: c.Variant})
		}
		all[i].requests += c.Survival.Requests
		all[i].succeeded += c.Survival.Succeeded
		if failures := c.Survival.Failures; len(failures) > 0 {
			all[i].worst = cmp.Or(all[i].worst, failures[0].Class, failures[0].Code)
		}
	}
	return all
}

// price says what a request with a connection of its own costs both ends, of
// the variants that begin each with a full handshake.
func (f *field) price(clients int) []string {
	if len(f.sizes) == 0 {
		return nil
	}
	var costs []*analysis.Cell
	for _, v := range f.variants {
		c := f.cell(v, spot{f.sizes[0], clients})
		if c != nil && c.Connection == "new" && c.ClientCPU != nil && c.ServerCPU != nil {
			costs = append(costs, c)
		}
	}
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

// unachieved names the cells whose connections were not what was asked for, as
// far as no check has said so.
func unachieved(s *analysis.Summary) []string {
	var texts []string
	for i := range s.Cells {
		c := &s.Cells[i]
		told := slices.ContainsFunc(c.Findings, func(f analysis.Finding) bool { return f.Name == "connections" })
		if !c.Connections.Differs || told {
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
	if more := len(texts) - shownCells; more > 0 {
		texts = append(texts[:shownCells:shownCells], count(more, "cell")+" more")
	}
	return []string{"Not the connections that were asked for: " + list(texts) + "."}
}
