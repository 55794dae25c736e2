package advice

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/analysis"
)

// cost says what a request costs in CPU time, at the client and at the server, with
// the most clients, for which a system would be sized.
func cost(p *part) []string {
	var clauses []string
	for _, bytes := range p.sizeEnds() {
		var texts []string
		var least *analysis.Cell
		for _, c := range p.cellsAt(point{bytes, p.mostClients()}) {
			if c.ClientCPU == nil || c.ServerCPU == nil {
				continue
			}
			if least == nil || sumCPU(c) < sumCPU(least) {
				least = c
			}
			texts = append(texts, fmt.Sprintf("%s %s + %s", c.Variant, micros(c.ClientCPU.Value), micros(c.ServerCPU.Value)))
		}
		if len(texts) == 0 {
			continue
		}
		clause := atSize(bytes) + list(texts)
		if len(texts) > 1 {
			clause += ", so " + least.Variant + " costs least"
		}
		clauses = append(clauses, clause)
	}
	return sentence(clauses, "CPU time a request, client + server, with %s: %s.", clients(p.mostClients()))
}

func sumCPU(c *analysis.Cell) float64 { return c.ClientCPU.Value + c.ServerCPU.Value }

const (
	// bulkBytes is the least that a call carries in bulk.
	bulkBytes = 1 << 20
	gigabyte  = 1e9
)

// bulk says what a gigabyte costs the server of a part whose calls carry bulk. In
// a closed loop it adds how many gigabytes a second there were; otherwise, where
// the schedule decides that, how many cores they took.
func bulk(p *part) []string {
	if len(p.sizes) == 0 || len(p.clients) == 0 {
		return nil
	}
	var texts []string
	var first float64
	for _, c := range p.cellsAt(point{p.sizes[0], p.clients[0]}) {
		if c.ServerCPU == nil || c.Wire == nil {
			continue
		}
		carried := c.Wire.Request.Message.Value + c.Wire.Response.Message.Value
		if carried < bulkBytes {
			return nil
		}
		seconds := c.ServerCPU.Value / 1e6 / carried * gigabyte
		text := fmt.Sprintf("%s %s s", c.Variant, number(seconds))
		if first == 0 {
			first = seconds
		} else {
			text += fmt.Sprintf(" (%s times)", number(seconds/first))
		}
		if p.closed() {
			text += fmt.Sprintf(" at %s GB/s", number(c.Throughput.Value*carried/gigabyte))
		} else if c.Server.Cores != nil {
			text += fmt.Sprintf(", %s cores", number(c.Server.Cores.Value))
		}
		texts = append(texts, text)
	}
	return sentence(texts, "CPU time of the server for a GB in %s, with %s: %s.", p.name, clients(p.clients[0]))
}

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
	if waiting := by[analysis.ByWaiting]; len(waiting) > 0 {
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
			names(waiting, len(cells)), percent(busiest), waits))
	}
	for _, end := range cpuBounds {
		if busy := by[end.bound]; len(busy) > 0 {
			clauses = append(clauses, end.text+" for "+names(busy, len(cells)))
		}
	}
	return sentence(clauses, "What limits with %s is %s.", clients(p.mostClients()))
}

var cpuBounds = []struct {
	bound analysis.Bound
	text  string
}{{analysis.ByServerCPU, "the server's CPU"}, {analysis.ByClientCPU, "the client's CPU"}}

func byBound(cells []*analysis.Cell) map[analysis.Bound][]*analysis.Cell {
	by := map[analysis.Bound][]*analysis.Cell{}
	for _, c := range cells {
		by[c.Bound] = append(by[c.Bound], c)
	}
	return by
}

// meanSpan is the shortest and the longest mean time of the cells.
func meanSpan(cells []*analysis.Cell) (least, longest float64) {
	least = math.Inf(1)
	for _, c := range cells {
		least, longest = min(least, c.ResponseTimes().Mean.Value), max(longest, c.ResponseTimes().Mean.Value)
	}
	return least, longest
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

// allocations says, part by part, what a call makes the end allocate that
// allocates most there, and which function does most of it.
func allocations(s *analysis.Summary) []string {
	var sentences []string
	for _, all := range grouped(s.Allocations, func(a analysis.Allocation) string { return a.Part }) {
		sums := map[string]float64{}
		for _, a := range all {
			sums[a.End] += a.Bytes
		}
		end := analysis.ServerEnd
		if sums[analysis.ClientEnd] > sums[end] {
			end = analysis.ClientEnd
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
