package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

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

func TestProbabilitiesAreScipys(t *testing.T) {
	for _, test := range []struct {
		b        []float64
		p, rankP float64
	}{
		{trialsB, 0.03412536921865722, 0.015873015873015872},
		{trialsB[:4], 0.01603047008074963, 0.031746031746031744},
	} {
		before := slices.Clone(trialsA)
		c, err := Compare(trialsA, test.b, Rule{Confidence: 0.95})
		if err != nil {
			t.Fatal(err)
		}
		if !near(c.P, test.p) || !near(c.RankP, test.rankP) {
			t.Errorf("P %v and RankP %v, scipy says %v and %v", c.P, c.RankP, test.p, test.rankP)
		}
		if !slices.Equal(before, trialsA) {
			t.Fatal("Compare reordered its trials")
		}
	}
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

// laboratory draws trials of known truth: a drift that neighbours in time share,
// and noise of each trial's own.
type laboratory struct {
	random *rand.Rand
	drift  float64
	noise  float64
}

func (l laboratory) trials(repeats int, ratio float64) (a, b []float64) {
	for range repeats {
		machine := math.Exp(l.drift * l.random.NormFloat64())
		a = append(a, ratio*machine*math.Exp(l.noise*l.random.NormFloat64()))
		b = append(b, machine*math.Exp(l.noise*l.random.NormFloat64()))
	}
	return a, b
}

// count returns how often each verdict is given.
func count(t *testing.T, experiments int, draw func() (a, b []float64), rule Rule) map[Verdict]int {
	t.Helper()
	verdicts := make(map[Verdict]int)
	for range experiments {
		a, b := draw()
		c, err := Compare(a, b, rule)
		if err != nil {
			t.Fatal(err)
		}
		verdicts[c.Verdict]++
	}
	return verdicts
}

func TestAAgainstAIsNoDifference(t *testing.T) {
	const experiments = 2000
	rule := Rule{Margin: 0.02, Confidence: 0.95}
	for _, noise := range []float64{0.002, 0.02, 0.1} {
		for _, repeats := range []int{3, 5, 10} {
			lab := laboratory{rand.New(rand.NewPCG(uint64(repeats), 21)), 0.05, noise}
			verdicts := count(t, experiments, func() ([]float64, []float64) { return lab.trials(repeats, 1) }, rule)
			t.Logf("noise %v, %d repeats: %v", noise, repeats, verdicts)
			if wrong := share(verdicts[Higher]+verdicts[Lower], experiments); wrong > 0.06 {
				t.Errorf("noise %v, %d repeats: A differs from A in %.3f of the comparisons", noise, repeats, wrong)
			}
			if noise == 0.002 && repeats >= 5 && verdicts[Equivalent] < experiments*95/100 {
				t.Errorf("%d repeats with 0.2 %% noise: only %d of %d are equivalent within 2 %%", repeats, verdicts[Equivalent], experiments)
			}
		}
	}
}

// As a matrix is judged: twenty cells a run, corrected as one family.
func TestAAgainstAIsNoDifferenceInAMatrix(t *testing.T) {
	const runs, cells = 400, 20
	rule := Rule{Margin: 0.02, Confidence: 0.95}
	lab := laboratory{rand.New(rand.NewPCG(1, 22)), 0.05, 0.02}
	wrong := 0
	for range runs {
		family := make([]Comparison, cells)
		for i := range family {
			a, b := lab.trials(5, 1)
			var err error
			if family[i], err = Compare(a, b, rule); err != nil {
				t.Fatal(err)
			}
		}
		if slices.ContainsFunc(CorrectFamily(family, rule), func(c Comparison) bool { return c.Verdict == Higher || c.Verdict == Lower }) {
			wrong++
		}
	}
	if s := share(wrong, runs); s > 0.06 {
		t.Errorf("%.3f of the matrices without a difference show one", s)
	}
}

func TestTenPercentIsFound(t *testing.T) {
	const experiments = 2000
	rule := Rule{Margin: 0.02, Confidence: 0.95}
	for _, test := range []struct {
		ratio   float64
		repeats int
		want    Verdict
		least   float64
	}{
		{1.1, 5, Higher, 0.99}, {1 / 1.1, 5, Lower, 0.99}, {1.1, 10, Higher, 0.999}, {1.1, 3, Higher, 0.75},
	} {
		lab := laboratory{rand.New(rand.NewPCG(uint64(test.repeats), 23)), 0.05, 0.02}
		verdicts := count(t, experiments, func() ([]float64, []float64) { return lab.trials(test.repeats, test.ratio) }, rule)
		t.Logf("ratio %.3f, %d repeats: %v", test.ratio, test.repeats, verdicts)
		if found := share(verdicts[test.want], experiments); found < test.least {
			t.Errorf("ratio %.3f, %d repeats: found in %.3f, want %v", test.ratio, test.repeats, found, test.least)
		}
	}
}

func TestVerdictAtTheEdges(t *testing.T) {
	rule := Rule{Margin: 0.05, Confidence: 0.95}
	for name, test := range map[string]struct {
		a, b []float64
		want Verdict
	}{
		"identical":                {[]float64{5, 5, 5}, []float64{5, 5, 5}, Equivalent},
		"exactly doubled":          {[]float64{2, 4, 6}, []float64{1, 2, 3}, Higher},
		"significant but tiny":     {[]float64{1.01, 2.02, 3.03}, []float64{1, 2, 3}, Equivalent},
		"great but noisy":          {[]float64{1, 9, 2}, []float64{4, 1, 1}, Undecided},
		"beyond 1, not the margin": {[]float64{1.030, 1.036, 1.060}, []float64{1, 1, 1}, Undecided},
	} {
		c, err := Compare(test.a, test.b, rule)
		if err != nil || c.Verdict != test.want {
			t.Errorf("%s: %+v %v, want %s", name, c, err, test.want)
		}
	}
	if _, err := Compare(trialsA, trialsB, Rule{Margin: -1, Confidence: 0.95}); !errors.Is(err, ErrUnusable) {
		t.Errorf("a negative margin: %v", err)
	}
}
