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
		Metric: matrix.Mean, Pairs: 3, Noise: 0.071, Findable: 0.22, Difference: 0.1, PairsForDifference: new(9), PairsForEquivalence: new(24),
	}}
	says := func(want ...string) {
		t.Helper()
		if got := powerSentences(s); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	says("Trials of one cell differ by 7.1 %, so 3 repeats find a difference of the mean of 22 % or more in four of five runs;" +
		" to show a difference of 10 % takes about 9 repeats; to show that two variants are equal within 5 % takes about 24 repeats.")
	s.Powers[0].PairsForEquivalence, s.Powers[0].Findable = nil, 0.09
	says("Trials of one cell differ by 7.1 %, so 3 repeats find a difference of the mean of 9 % or more in four of five runs.")
	s.Comparisons[0].Verdict = compare.Faster
	says()
}

func TestOutlook(t *testing.T) {
	for _, c := range []struct {
		p       *compare.Power
		repeats int
		want    string
	}{
		{nil, 3, "could find: unknown until one run with 3 repeats or more was made on this machine"},
		{
			&compare.Power{Metric: matrix.Mean, Pairs: 3, Noise: 0.021, Findable: 0.117, Difference: 0.1, PairsForDifference: new(4), PairsForEquivalence: new(9)}, 3,
			"could find: 11.7 % in the mean with 3 repeats, at the noise of trials of the same cells in a (2.1 %); to show a difference of 10 % takes about 4 repeats; to show that two variants are equal within 5 % takes about 9 repeats",
		},
		{
			&compare.Power{Metric: matrix.Mean, Pairs: 3, Noise: 0.4, Findable: 1.12, Difference: 0.1}, 3,
			"could find: a factor of 2.12 in the mean with 3 repeats, at the noise of trials of the same cells in a (40 %)",
		},
		{
			&compare.Power{Metric: matrix.Throughput, Pairs: 3, Noise: 0.021, Findable: 0.06, Difference: 0.1}, 1,
			"could find: nothing with 1 repeat; 6 % in throughput with 3, at the noise of trials of the same cells in a (2.1 %)",
		},
	} {
		if got := DescribePower(c.p, c.repeats, "of the same cells in a"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
