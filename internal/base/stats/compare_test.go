package stats

import (
	"math"
	"testing"
)

// Of scipy's ttest_rel of the logarithms.
func TestPairedFitIsScipys(t *testing.T) {
	var all []Observation
	for i := range trialsA {
		all = append(all, Observation{Variant: 0, Block: i, Log: math.Log(trialsA[i])}, Observation{Variant: 1, Block: i, Log: math.Log(trialsB[i])})
	}
	checkInterval(t, FitBlocks(2, all, 1).Difference(0, 1).Interval(0.95), 1.1286472502511098, 1.0148586803250972, 1.2551940878027779)
}

// Of R's p.adjust and statsmodels' multipletests(method="holm").
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005, 0.5})
	for i, want := range []float64{0.04, 0.09, 0.09, 0.025, 0.5} {
		if !near(got[i], want) {
			t.Errorf("p %d becomes %v, want %v", i, got[i], want)
		}
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("no tests become %v", got)
	}
}

func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		given  Comparison
		want   Verdict
		margin float64
	}{
		"identical":               {Comparison{Ratio: Interval{Estimate: 1, Low: 1, High: 1}, P: 1}, Equivalent, 0.01},
		"doubled":                 {Comparison{Ratio: Interval{Estimate: 2, Low: 1.9, High: 2.1}, P: 0.001}, Higher, 0},
		"halved":                  {Comparison{Ratio: Interval{Estimate: 0.5, Low: 0.4, High: 0.6}, P: 0.001}, Lower, 0},
		"certain and tiny":        {Comparison{Ratio: Interval{Estimate: 1.01, Low: 1.005, High: 1.015}, P: 0.001}, Higher, 0.02},
		"great but noisy":         {Comparison{Ratio: Interval{Estimate: 2, Low: 0.5, High: 8}, P: 0.4}, Undecided, 0},
		"certain, below a margin": {Comparison{Ratio: Interval{Estimate: 1.04, Low: 1.02, High: 1.06}, P: 0.01}, Higher, 0.1},
		"one of many, and small":  {Comparison{Ratio: Interval{Estimate: 0.97, Low: 0.96, High: 0.98}, P: 0.2}, Equivalent, 0.05},
	} {
		if got := CorrectFamily([]Comparison{test.given}, 0.95)[0]; got.Verdict != test.want || got.Margin != test.margin {
			t.Errorf("%s: %s within %v, want %s within %v", name, got.Verdict, got.Margin, test.want, test.margin)
		}
	}
	family := make([]Comparison, 20) // what one alone would be sure of, one of many is not
	for i := range family {
		family[i] = Comparison{Ratio: Interval{Estimate: 2, Low: 1.5, High: 2.5}, P: 0.01}
	}
	if got := CorrectFamily(family, 0.95)[0]; got.Verdict != Undecided || !near(got.P, 0.2) {
		t.Errorf("one of twenty: %+v", got)
	}
}
