package advice

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// overLinks are cells of two variants in parts that differ by their link.
func overLinks(load record.Load, parts map[string]record.Network, mean func(part, variant string) float64) (cells []matrix.Cell) {
	for _, part := range []string{"near", "far", "lossy"} {
		network, ok := parts[part]
		if !ok {
			continue
		}
		network.Link = part
		for _, variant := range []string{"h2", "h3"} {
			at := matrix.Figure{Value: mean(part, variant)}
			cells = append(cells, matrix.Cell{
				Cell:  record.Cell{Part: part, Variant: variant, Place: record.Place{Clients: 4}, Load: load, Network: network},
				Valid: 1, Service: matrix.Latencies{Mean: at, P50: at},
			})
		}
	}
	return cells
}

func TestLinksAreTold(t *testing.T) {
	const delay = 10e6
	near, far := record.Network{}, record.Network{DelayNS: delay}
	lossy := record.Network{DelayNS: delay, Up: record.Way{Loss: 0.01}, Down: record.Way{Loss: 0.01}}
	all := map[string]record.Network{"near": near, "far": far, "lossy": lossy}
	mean := func(part, variant string) float64 {
		return map[string]float64{"near h2": 100, "near h3": 200, "far h2": 20_000, "far h3": 20_500, "lossy h2": 40_000, "lossy h3": 22_550}[part+" "+variant]
	}
	closed := overLinks(record.Load{Model: "closed"}, all, mean)
	open := overLinks(record.Load{Model: "open", RatePerSecond: 200}, map[string]record.Network{"far": far, "lossy": lossy}, mean)
	fresh := overLinks(record.Load{Model: "closed"}, map[string]record.Network{"far": far}, func(_, variant string) float64 {
		return map[string]float64{"h2": 63_000, "h3": 41_000}[variant]
	})
	for i := range fresh {
		fresh[i].Connections.PerRequest = true
	}
	for name, test := range map[string]struct {
		cells []matrix.Cell
		want  []string
	}{
		"fastest":           {closed, []string{"Fastest variant on 3 links (0 proven): h2 on 2, h3 on 1"}},
		"two links":         {closed[:4], []string{"Fastest: perhaps h2 over near, perhaps h2 over far"}},
		"by a schedule":     {open, []string{"Fastest: perhaps h2 over far, perhaps h3 over lossy", "Calls take longer with 1 % loss: h2 2×, h3 1.1×"}},
		"without the clean": {open[2:], nil},
		"new connections":   {fresh, []string{"Round trips until a new connection's first answer: h3 2.0, h2 3.1"}},
	} {
		if got := append(fastestOverLinks(&analysis.Summary{Cells: test.cells}), linkLines(&analysis.Summary{Cells: test.cells})...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestFewLinksAreToldEach(t *testing.T) {
	cells := overLinks(record.Load{Model: "closed"}, map[string]record.Network{"near": {}, "far": {DelayNS: 1e6}}, func(part, variant string) float64 {
		return map[string]float64{"near h2": 100, "near h3": 200, "far h2": 2000, "far h3": 1900}[part+" "+variant]
	})
	cells[0].Network, cells[1].Network = record.Network{}, record.Network{}
	s := &analysis.Summary{Done: 4, Planned: 4, Cells: cells}
	if got, want := findings(s)[0], "Fastest: perhaps h2 over loopback, perhaps h3 over far"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
