package advice

import (
	"slices"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func TestPowerIsToldWhereSomethingIsUndecided(t *testing.T) {
	s := &analysis.Summary{}
	s.Comparisons = []compare.Comparison{{Metric: matrix.Mean, Verdict: compare.Undecided}}
	s.Powers = []compare.Power{{
		Metric: matrix.Mean, Pairs: 3, Unit: "block", Noise: 0.02, Findable: 0.08, Difference: 0.03, PairsForDifference: new(20),
	}}
	says := func(want ...string) {
		t.Helper()
		if got := powerSentences(s); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	says("With 3 blocks this machine can tell 8 % apart; 3 % takes about 20.")
	s.Powers[0].PairsForDifference, s.Powers[0].Unit = nil, "repeat"
	says("With 3 repeats this machine can tell 8 % apart.")
	s.Comparisons[0].Verdict = compare.Faster
	says()
}

func TestOutlook(t *testing.T) {
	for _, c := range []struct {
		p       *compare.Power
		repeats int
		want    string
	}{
		{nil, 3, "One run with 3 repeats or more will show how small a difference this machine can tell."},
		{
			&compare.Power{Metric: matrix.Mean, Pairs: 3, Unit: "repeat", Findable: 0.117, Difference: 0.05, PairsForDifference: new(9)}, 3,
			"With 3 repeats this machine can tell 11.7 % apart; 5 % takes about 9.",
		},
		{
			&compare.Power{Metric: matrix.Mean, Pairs: 3, Unit: "block", Findable: 1.12, Difference: 0.1}, 3,
			"With 3 blocks this machine can tell a factor of 2.12 apart.",
		},
		{
			&compare.Power{Metric: matrix.Throughput, Pairs: 3, Unit: "repeat", Findable: 0.06, Difference: 0.03, PairsForDifference: new(9)}, 1,
			"With 1 repeat this machine can tell nothing apart; with 3 it can tell 6 % of throughput; 3 % takes about 9.",
		},
	} {
		if got := DescribePower(c.p, c.repeats); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
