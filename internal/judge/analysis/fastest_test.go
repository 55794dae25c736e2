package analysis

import (
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// racing are cells at one point with their means, in microseconds, and the verdict of each
// on each that follows.
func racing(verdicts map[[2]string]compare.Verdict, means map[string]float64) (*Summary, map[string]*matrix.Cell, []*matrix.Cell) {
	s, byName, point := &Summary{}, map[string]*matrix.Cell{}, []*matrix.Cell(nil)
	for _, name := range []string{"a", "b", "c"} {
		c := &matrix.Cell{Cell: record.Cell{Part: "p", Variant: name, Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed"}}, Valid: 3}
		c.Service.Mean.Value = means[name]
		byName[name] = c
		point = append(point, c)
	}
	for pair, verdict := range verdicts {
		s.Comparisons = append(s.Comparisons, compare.Comparison{
			Part: "p", A: pair[0], B: pair[1], Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed"}, Metric: matrix.Mean, Verdict: verdict,
		})
	}
	return s, byName, point
}

func TestTheFastestIsSoBeyondDoubt(t *testing.T) {
	means := map[string]float64{"a": 30, "b": 10, "c": 20}
	for _, test := range []struct {
		name     string
		verdicts map[[2]string]compare.Verdict
		invalid  string
		want     string
	}{
		{"beats all", map[[2]string]compare.Verdict{{"a", "b"}: compare.Slower, {"b", "c"}: compare.Faster, {"a", "c"}: compare.Undecided}, "", "b"},
		{"undecided against one", map[[2]string]compare.Verdict{{"a", "b"}: compare.Slower, {"b", "c"}: compare.Undecided}, "", ""},
		{"equivalent to one", map[[2]string]compare.Verdict{{"a", "b"}: compare.Slower, {"b", "c"}: compare.Equivalent}, "", ""},
		{"one is not compared", map[[2]string]compare.Verdict{{"a", "b"}: compare.Slower}, "", ""},
		{"undecided against one that is invalid", map[[2]string]compare.Verdict{{"a", "b"}: compare.Slower, {"b", "c"}: compare.Undecided}, "c", "b"},
		{"the best is invalid", map[[2]string]compare.Verdict{{"a", "c"}: compare.Slower}, "b", "c"},
	} {
		s, byName, point := racing(test.verdicts, means)
		if test.invalid != "" {
			byName[test.invalid].Valid = 0
		}
		got := ""
		if c := s.Fastest(point); c != nil {
			got = c.Variant
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	s, byName, _ := racing(nil, means)
	if s.Fastest([]*matrix.Cell{byName["a"]}) != nil {
		t.Error("one alone is the fastest")
	}
}

// A search looks for a rate: the highest is the best.
func TestTheFastestOfASearchKeepsTheHighestRate(t *testing.T) {
	s, byName, point := racing(map[[2]string]compare.Verdict{{"a", "b"}: compare.Faster}, nil)
	for name, kept := range map[string]float64{"a": 900, "b": 700} {
		byName[name].Search, byName[name].Load.Model = &matrix.Search{Kept: matrix.Figure{Value: kept}}, "search"
	}
	s.Comparisons[0].Load.Model = "search"
	s.Comparisons[0].Metric = matrix.Throughput
	if c := s.Fastest(point[:2]); c != byName["a"] {
		t.Errorf("%v is the fastest", c)
	}
}

func TestHalfWidth(t *testing.T) {
	if _, known := (matrix.Figure{Value: 4}).HalfWidth(); known {
		t.Error("known without an interval")
	}
	share, known := matrix.Figure{Value: 4, Interval: &matrix.Interval{Low: 3, High: 7}}.HalfWidth()
	if !known || share != 0.5 {
		t.Errorf("%v, %v", share, known)
	}
}
