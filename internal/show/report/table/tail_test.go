package table

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/insight"
)

// TestTailTable wants every figure of a stage in its column, and the sum below.
func TestTailTable(t *testing.T) {
	life := &record.Life{Stages: []string{"client: encode", "send request", "handler", "send answer"}, TracedNS: new(1100.0), BareNS: new(1000.0)}
	for i := range 1000 {
		call := []int64{20_000, 1000, 40_000, 2000}
		if i%100 == 0 {
			call = []int64{15_000, 1000, 1_040_000, 2000}
		}
		life.Calls = append(life.Calls, call)
	}
	life.Stacks = &record.CallStacks{
		Functions: []string{"handler", "example.com/shop/orders.(*Server).Place", "sync.(*Mutex).Lock"}, Stacks: [][]int{{0, 1}, {0, 1, 2}},
		Slow: slices.Repeat([][]record.StackTime{{{Stack: 0, NS: 58_000}, {Stack: 1, NS: 1_000_000}}}, 10), Median: []record.StackTime{{Stack: 0, NS: 200 * 63_000}},
	}
	pass := &record.Record{Probe: record.ProbeLife, Cell: record.Cell{Part: "p", Variant: "tcp", Place: record.Place{Workload: "echo", Clients: 50}}, Life: life}
	i := &insight.FindInsights(nil, nil, []*record.Record{pass}, insight.BuiltInCategories())[0]
	var out strings.Builder
	if err := WriteExplanation(&out, insight.Explain(i, nil)); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"The slowest 10 of 1000 calls of p/tcp/echo/0B/c=50 beside the 200 calls between P40 and P60 (calls took 1.1 times as long with the probe) median calls slow calls excess share of excess (95 %) share of variance",
		"client: encode 20 µs 15 µs −5 µs −1 % (−1 to −1) −1 %",
		"handler 40 µs 1.04 ms 1 ms 101 % (101 to 101) 101 %",
		"2 others 3 µs 3 µs 0 µs",
		"= a call 63 µs 1.06 ms 995 µs Functions with the largest excess: orders.(*Server).Place 995 µs (handler)",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
