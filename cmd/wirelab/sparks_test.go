package main

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
)

// The table fills as trials end: what was not measured, what was refused, and the higher the
// more throughput.
func TestSparksFill(t *testing.T) {
	s, err := scenario.Parse("s.yaml", []byte(`version: 1
name: s
defaults: {sizes: [64], repeats: 2, load: {model: closed, requests: 1000}}
parts:
  - {name: p, stacks: [tcp, grpc], clients: [1, 10, 100, 200]}
`), vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	plan := s.Plan()
	shown := newSparks(plan)
	if lines := shown.lines(80); lines != nil {
		t.Errorf("before a trial has ended: %q", lines)
	}
	rates := map[string]float64{"tcp": 1, "grpc": 0.1}
	for i, trial := range lab.Order(plan) {
		c := plan[i].Cell
		if trial.Repeat > 1 || c.Clients == 200 {
			continue
		}
		r := &record.Record{Cell: record.Cell{
			Part: c.Part, Variant: c.Variant.String(), Place: record.Place{Workload: c.Workload, Payload: record.Payload{RequestBytes: int(c.RequestBytes), ResponseBytes: int(c.ResponseBytes)}, Clients: c.Clients},
		}}
		if c.Clients == 100 && c.Variant.Stack == "grpc" {
			r.Failure = "refused"
		}
		r.Completed, r.WindowNS = int64(1e6*rates[c.Variant.Stack]*float64(c.Clients)), 1e9
		shown.take(r)
	}
	if got, want := shown.lines(80), []string{"grpc  ▁▃×·", "tcp   ▃▅█·", "requests/s, a sign a cell; ·: to come, ×: refused"}; !slices.Equal(got, want) {
		t.Errorf("the table is %q, want %q", got, want)
	}
	for _, line := range shown.lines(7)[:2] {
		if n := len([]rune(line)); n > 7 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
}
