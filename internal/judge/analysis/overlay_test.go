package analysis

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Two runs lie side by side, each variant with the name of its run, and what became slower
// from one to the other is a comparison like any.
func TestOverlay(t *testing.T) {
	before, after := runsThatDiffer(t, 3, 10, 1.5)
	over, err := Overlay([]string{"before", "after"}, []*Summary{before, after})
	if err != nil {
		t.Fatal(err)
	}
	if len(over.Cells) != len(before.Cells)+len(after.Cells) || over.Done != before.Done+after.Done {
		t.Errorf("%d cells of %d trials", len(over.Cells), over.Done)
	}
	if a, b := over.Cells[0].Variant, over.Cells[len(over.Cells)-1].Variant; a != "grpc:run=before" && a != "tcp:run=before" && a != "rest:run=before" || !strings.HasSuffix(b, ":run=after") {
		t.Errorf("from %s to %s", a, b)
	}
	keys := map[string]bool{}
	for _, c := range over.Cells {
		keys[c.Key] = true
	}
	if len(keys) != len(over.Cells) {
		t.Errorf("%d keys of %d cells", len(keys), len(over.Cells))
	}
	slower := slices.DeleteFunc(slices.Clone(over.Comparisons), func(c compare.Comparison) bool { return c.Metric != matrix.Mean || c.Verdict != compare.Slower })
	if len(slower) != 1 || slower[0].A != "grpc:run=after" || slower[0].B != "grpc:run=before" || slower[0].Clients != 50 {
		t.Fatalf("slower: %+v", slower)
	}
	within(t, "the ratio", slower[0].Ratio.Value, 1.5, 0.1)
	if before.Cells[0].Variant != "tcp" && before.Cells[0].Variant != "grpc" && before.Cells[0].Variant != "rest" {
		t.Errorf("the run's own cells are now called %s", before.Cells[0].Variant)
	}
}

// Runs of other work can be looked at, and are not compared.
func TestOverlayOfRunsWithNothingInCommon(t *testing.T) {
	one, _ := runsThatDiffer(t, 3, 3, 1)
	other := synthetic{seed: 1, noise: 0.01, repeats: 3, truths: []truth{{part: "matrix", variant: "tcp:tls=on", bytes: 64, clients: 2, mean: 1e6}}}.summarize(t)
	over, err := Overlay([]string{"a", "b"}, []*Summary{one, other})
	if err != nil {
		t.Fatal(err)
	}
	if len(over.Comparisons) > 0 || len(over.Warnings) != 1 || !strings.HasPrefix(over.Warnings[0], "the runs a and b cannot be compared: ") {
		t.Errorf("%d comparisons, warnings %q", len(over.Comparisons), over.Warnings)
	}
	if last := over.Cells[len(over.Cells)-1].Variant; last != "tcp:run=b,tls=on" {
		t.Errorf("the last cell is called %s", last)
	}
}
