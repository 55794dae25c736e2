package stats

import "testing"

func TestRatioIntervalIsScipys(t *testing.T) {
	paired, err := RatioInterval(trialsA, trialsB, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	checkInterval(t, paired, 1.1286472502511098, 1.0148586803250972, 1.2551940878027779)
	unpaired, err := RatioInterval(trialsA, trialsB[:4], 0.95)
	if err != nil {
		t.Fatal(err)
	}
	checkInterval(t, unpaired, 1.1283178634518118, 1.0318362212451013, 1.2338210025697967)
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
	rule := Rule{Margin: 0.05, Confidence: 0.95}
	for name, test := range map[string]struct {
		given Comparison
		want  Verdict
	}{
		"identical":                {Comparison{Ratio: Interval{Estimate: 1, Low: 1, High: 1}, P: 1}, Equivalent},
		"doubled":                  {Comparison{Ratio: Interval{Estimate: 2, Low: 1.9, High: 2.1}, P: 0.001}, Higher},
		"halved":                   {Comparison{Ratio: Interval{Estimate: 0.5, Low: 0.4, High: 0.6}, P: 0.001}, Lower},
		"significant but tiny":     {Comparison{Ratio: Interval{Estimate: 1.01, Low: 1.005, High: 1.015}, P: 0.001}, Equivalent},
		"great but noisy":          {Comparison{Ratio: Interval{Estimate: 2, Low: 0.5, High: 8}, P: 0.4}, Undecided},
		"beyond 1, not the margin": {Comparison{Ratio: Interval{Estimate: 1.04, Low: 1.02, High: 1.06}, P: 0.01}, Undecided},
	} {
		if got := CorrectFamily([]Comparison{test.given}, rule)[0].Verdict; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	family := make([]Comparison, 20) // what one alone would be sure of, one of many is not
	for i := range family {
		family[i] = Comparison{Ratio: Interval{Estimate: 2, Low: 1.5, High: 2.5}, P: 0.01}
	}
	if got := CorrectFamily(family, rule)[0]; got.Verdict != Undecided || !near(got.P, 0.2) {
		t.Errorf("one of twenty: %+v", got)
	}
}
