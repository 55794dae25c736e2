package view

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// The table fills as trials end: what was not measured, what was refused, and the higher the
// more throughput.
func TestSparksFill(t *testing.T) {
	var plan []scenario.PlannedCell
	var order []record.PlannedTrial
	cellOf := func(c scenario.Cell) record.Cell {
		return record.Cell{Part: c.Part, Variant: c.Variant.String(), Place: record.Place{Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: c.Clients}}
	}
	for _, stack := range []string{"tcp", "grpc"} {
		for _, clients := range []int{1, 10, 100, 200} {
			c := scenario.Cell{Part: "p", Variant: scenario.Variant{Stack: stack}, Clients: clients}
			plan = append(plan, scenario.PlannedCell{Cell: c, Repeat: 1})
			order = append(order, record.PlannedTrial{Trial: len(order), Repeat: 1, Cell: cellOf(c).Key()})
		}
	}
	shown := newSparks(plan, order)
	if lines := shown.lines(80); lines != nil {
		t.Errorf("before a trial has ended: %q", lines)
	}
	rates := map[string]float64{"tcp": 1, "grpc": 0.1}
	for _, trial := range plan {
		c := trial.Cell
		if c.Clients == 200 {
			continue
		}
		r := &record.Record{Cell: cellOf(c)}
		if c.Clients == 100 && c.Variant.Stack == "grpc" {
			r.Failure = "refused"
		}
		r.Completed, r.WindowNS = int64(1e6*rates[c.Variant.Stack]*float64(c.Clients)), 1e9
		shown.add(r)
	}
	if got, want := shown.lines(80), []string{"grpc  ▁▃×·", "tcp   ▃▆█·", "requests/s, one sign per cell; ·: not measured yet, ×: invalid"}; !slices.Equal(got, want) {
		t.Errorf("the table is %q, want %q", got, want)
	}
	for _, line := range shown.lines(7)[:2] {
		if n := len([]rune(line)); n > 7 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
}
