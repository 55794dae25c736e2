package advice

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/analysis"
)

// bound says whether CPU or waiting was the limit of a closed loop with the
// most clients: a throughput that is the clients over a sleep is no wire's.
func bound(f *field) []string {
	if len(f.sizes) == 0 || !f.closed() {
		return nil
	}
	by, all := map[analysis.Bound][]*analysis.Cell{}, 0
	for _, v := range f.variants {
		if c := f.cell(v, spot{f.sizes[0], f.most()}); c != nil {
			by[c.Bound] = append(by[c.Bound], c)
			all++
		}
	}
	var clauses []string
	if waiting := by[analysis.ByWaiting]; len(waiting) > 0 {
		busiest, least, longest := 0.0, math.Inf(1), 0.0
		for _, c := range waiting {
			busiest = max(busiest, c.Client.Busy.Value, c.Server.Busy.Value)
			least, longest = min(least, latencies(c).Mean.Value), max(longest, latencies(c).Mean.Value)
		}
		waits := micros(least)
		if number(least) != number(longest) {
			waits += " to " + micros(longest)
		}
		clauses = append(clauses, fmt.Sprintf("waiting for %s, whose ends are at most %s busy: throughput is the clients over the %s that a call waits, not what the wire can carry",
			names(waiting, all), percent(busiest), waits))
	}
	if busy := by[analysis.ByServerCPU]; len(busy) > 0 {
		clauses = append(clauses, "the server's CPU for "+names(busy, all))
	}
	if busy := by[analysis.ByClientCPU]; len(busy) > 0 {
		clauses = append(clauses, "the client's CPU for "+names(busy, all))
	}
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("What limits with %s is %s.", clients(f.most()), strings.Join(clauses, "; "))}
}

// names lists the variants of the cells, or says that they are all.
func names(cells []*analysis.Cell, all int) string {
	if len(cells) == all && all > shownRivals {
		return fmt.Sprintf("all %d variants", all)
	}
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = c.Variant
	}
	return list(texts)
}
