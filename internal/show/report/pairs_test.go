package report

import (
	"fmt"
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Every two cells at a point can be explained, the usual pair first; of many cells only each
// against the first, for words of all would be most of the page.
func TestPairs(t *testing.T) {
	insightsOf := func(count int, clients ...int) (all []insight.Insight) {
		for _, n := range clients {
			for i := range count {
				all = append(all, insight.Insight{Variant: fmt.Sprint(i), Place: record.Place{Clients: n}, Mean: &matrix.Figure{Value: float64(100 - i)}})
			}
		}
		return all
	}
	for _, of := range []struct {
		insights []insight.Insight
		first    [2]int
		want     int
	}{
		{insightsOf(1, 1), [2]int{0, -1}, 1},
		{insightsOf(3, 1), [2]int{1, 0}, 9},
		{insightsOf(3, 1, 10), [2]int{1, 0}, 18},
		{insightsOf(maxPairedCells, 1), [2]int{1, 0}, maxPairedCells * maxPairedCells},
		{insightsOf(maxPairedCells+1, 1), [2]int{1, 0}, 2*maxPairedCells + 1},
		{nil, [2]int{}, 0},
	} {
		pairs := pairsOf(of.insights)
		if len(pairs) != of.want {
			t.Errorf("of %d insights there are %d pairs, want %d", len(of.insights), len(pairs), of.want)
		}
		seen := map[[2]int]bool{}
		for i, p := range pairs {
			key := [2]int{p.Of, -1}
			if p.Against != nil {
				key[1] = *p.Against
				if !of.insights[key[1]].IsAt(&of.insights[p.Of]) {
					t.Errorf("%v are not at the same point", key)
				}
			}
			if i == 0 && key != of.first {
				t.Errorf("the usual pair of %d is %v, want %v", len(of.insights), key, of.first)
			}
			if seen[key] || key[0] == key[1] {
				t.Errorf("%v is there twice, or against itself", key)
			}
			seen[key] = true
		}
	}
	run := fixtureInsights(t, insides...)
	for _, p := range pairsOf(run.Summary.Insights) {
		var against *insight.Insight
		if p.Against != nil {
			against = &run.Summary.Insights[*p.Against]
		}
		if want := advice.Explain(insight.Explain(&run.Summary.Insights[p.Of], against)); !slices.Equal(p.Words, want) || len(want) == 0 {
			t.Errorf("words of %d: %q, want %q", p.Of, p.Words, want)
		}
	}
}
