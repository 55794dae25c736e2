package advice

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// cost says what a request costs in CPU time, at the client and at the server, with
// the most clients, for which a system would be sized.
func cost(p *part) []string {
	var clauses []string
	for _, size := range p.sizeEnds() {
		at := point{size, p.mostClients()}
		var texts []string
		for _, c := range p.cellsAt(at) {
			if metricOf(matrix.CPU, c) != nil {
				texts = append(texts, c.Variant+" "+bothCPUs(c))
			}
		}
		if len(texts) > 0 {
			clauses = append(clauses, atSize(size)+list(texts)+p.cheapest(at))
		}
	}
	return sentence(clauses, "CPU time a request, client + server, with %s: %s.", clients(p.mostClients()))
}

// cheapest says whose requests cost the least CPU time, as a clause to be added; it
// is empty where nothing was compared.
func (p *part) cheapest(at point) string {
	least, ok := p.rank(matrix.CPU, at)
	switch {
	case !ok || len(least.rivals) == 0:
		return ""
	case least.isSure():
		return ", so " + least.best + " costs least"
	}
	return "; " + least.best + " costs least" + least.doubt()
}

// bothCPUs is what a request costs the client and the server.
func bothCPUs(c *matrix.Cell) string {
	return micros(c.ClientCPU.Value) + " + " + micros(c.ServerCPU.Value)
}

// bulk says what a gigabyte costs the server of a part whose calls carry bulk. In
// a closed loop it adds how many gigabytes a second there were; otherwise, where
// the schedule decides that, how many cores they took.
func bulk(p *part) []string {
	if len(p.sizes) == 0 || len(p.clients) == 0 {
		return nil
	}
	var texts []string
	for _, c := range p.cellsAt(point{p.sizes[0], p.clients[0]}) {
		if c.Bulk == nil || c.Bulk.ServerCPU == nil {
			continue
		}
		text := c.Variant + " " + between(*c.Bulk.ServerCPU, seconds)
		if p.closed() {
			text += " at " + number(c.Bulk.Rate.Value) + " GB/s"
		} else if c.Server.Cores != nil {
			text += ", " + number(c.Server.Cores.Value) + " cores"
		}
		texts = append(texts, text)
	}
	return sentence(texts, "CPU time of the server for a GB in %s, %swith %s: %s.", p.name, p.atSmallest(), clients(p.clients[0]))
}

func seconds(v float64) string { return number(v) + " s" }

// bound says whether CPU or waiting was the limit of a closed loop with the most
// clients. A throughput that is the number of clients over a sleep says nothing
// about the wire.
func bound(p *part) []string {
	if len(p.sizes) == 0 || !p.closed() {
		return nil
	}
	cells := p.cellsAt(point{p.sizes[0], p.mostClients()})
	by := byBound(cells)
	var clauses []string
	if waiting := by[matrix.ByWaiting]; len(waiting) > 0 {
		busiest := 0.0
		for _, c := range waiting {
			busiest = max(busiest, c.Client.Busy.Value, c.Server.Busy.Value)
		}
		least, longest := meanSpan(waiting)
		waits := micros(least)
		if number(least) != number(longest) {
			waits += " to " + micros(longest)
		}
		clauses = append(clauses, fmt.Sprintf("waiting for %s, whose ends are at most %s busy: throughput is the clients over the %s that a call waits, not what the wire can carry",
			names(waiting, len(cells)), share(busiest), waits))
	}
	for _, end := range cpuBounds {
		if busy := by[end.bound]; len(busy) > 0 {
			clauses = append(clauses, end.text+" for "+names(busy, len(cells)))
		}
	}
	return sentence(clauses, "What limits %swith %s is %s.", p.atSmallest(), clients(p.mostClients()))
}

var cpuBounds = []struct {
	bound matrix.Bound
	text  string
}{{matrix.ByServerCPU, "the server's CPU"}, {matrix.ByClientCPU, "the client's CPU"}}

func byBound(cells []*matrix.Cell) map[matrix.Bound][]*matrix.Cell {
	by := map[matrix.Bound][]*matrix.Cell{}
	for _, c := range cells {
		by[c.Bound] = append(by[c.Bound], c)
	}
	return by
}

// meanSpan is the shortest and the longest mean time of the cells.
func meanSpan(cells []*matrix.Cell) (least, longest float64) {
	least = math.Inf(1)
	for _, c := range cells {
		least, longest = min(least, c.ResponseTimes().Mean.Value), max(longest, c.ResponseTimes().Mean.Value)
	}
	return least, longest
}

// names lists the variants of the cells, or says that they are all.
func names(cells []*matrix.Cell, all int) string {
	if len(cells) == all && all > shownRivals {
		return fmt.Sprintf("all %d variants", all)
	}
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = c.Variant
	}
	return list(texts)
}

// allocations says, part by part, what a call makes the end allocate that
// allocates most there, and which function does most of it.
func allocations(s *analysis.Summary) []string {
	var sentences []string
	for _, all := range lists.GroupBy(s.Allocations, func(a insight.Allocation) string { return a.Part }) {
		sums := map[string]float64{}
		for _, a := range all {
			sums[a.End] += a.Bytes
		}
		end := insight.ServerEnd
		if sums[insight.ClientEnd] > sums[end] {
			end = insight.ClientEnd
		}
		var texts []string
		for _, a := range all {
			if a.End != end {
				continue
			}
			text := fmt.Sprintf("%s %s in %s objects", a.Variant, size(a.Bytes), number(a.Objects))
			if len(a.Functions) > 0 {
				f := a.Functions[0]
				text += fmt.Sprintf(" (%s of the bytes by %s)", percent(f.Bytes), f.Function[strings.LastIndexByte(f.Function, '/')+1:])
			}
			texts = append(texts, text)
		}
		sentences = append(sentences, sentence(texts, "What a call of %s makes the %s allocate: %s.", all[0].Part, end)...)
	}
	return sentences
}
