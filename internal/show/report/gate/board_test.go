package gate

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func TestBoardNamesMachineAndRefusals(t *testing.T) {
	good := matrix.Cell{Trials: 3, Valid: 3, Throughput: matrix.Figure{Value: 1000, Interval: &matrix.Interval{Low: 900, High: 1100, Confidence: 0.95}}}
	bad := matrix.Cell{Trials: 3, Failure: "it broke"}
	for _, c := range []struct {
		cell    *matrix.Cell
		variant string
	}{{&good, "grpc"}, {&bad, "kitex:framing=mux"}} {
		c.cell.Part, c.cell.Variant, c.cell.Clients, c.cell.Workload, c.cell.RequestBytes, c.cell.Unpinned = "small", c.variant, 50, "echo", 64, true
	}
	alone := good
	alone.Part, alone.Clients, alone.Unpinned = "untitled", 1, false
	var out strings.Builder
	err := WriteBoard(&out, &Run{Summary: &analysis.Summary{
		Title: "A board", Started: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), Status: record.Done,
		Host: map[string]any{"cpu_model": "Some CPU", "cores": 2.0, "memory_bytes": float64(8 << 30)}, Cells: []matrix.Cell{good, bad, alone},
		PartTitles: map[string]string{"small": "Small calls"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# A board\n", "on Some CPU with 2 CPUs and 8 GiB of memory", "## Small calls\n\n### echo of 64B, 50 callers, unpinned\n", "## untitled\n\n### echo of 64B, 1 caller, pinned\n",
		"| `grpc` | 1,000 ±10%", "| `kitex:framing=mux` | – | – | – | – | – | 0/3 **refused**: it broke |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, out.String())
		}
	}
}
