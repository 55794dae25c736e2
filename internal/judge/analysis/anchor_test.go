package analysis

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// anchoredRun draws a run of one cell and its anchor on a machine that is level times as slow. The
// machine slows the cell by level to the power of share.
func anchoredRun(t *testing.T, seed uint64, level, share, factor float64) *Summary {
	t.Helper()
	mean := time.Duration(100e3 * math.Pow(level, share) * factor)
	s := synthetic{seed: seed, noise: 0.03, repeats: 6, truths: []truth{{part: "matrix", variant: "grpc", bytes: 64, clients: 16, mean: mean}}}.summarize(t)
	random := rand.New(rand.NewPCG(seed, 2))
	for range 8 {
		at := level * math.Exp(0.06*random.NormFloat64())
		s.Anchor = append(s.Anchor, record.AnchorReading{Clients: 16, MeanNS: 25e3 * at, CPUNS: 20e3 * at})
	}
	return s
}

func diffOf(t *testing.T, before, after *Summary) (mean Difference, d *Diff) {
	t.Helper()
	d, err := NewDiff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range d.Differences {
		if one.Metric == matrix.Mean {
			return one, d
		}
	}
	t.Fatal("the mean was not compared")
	return mean, d
}

// Runs of one program on a machine whose speed differs from run to run show no difference, whether
// the cell feels the machine as much as the anchor, less or more. A real difference of 30 % is found.
func TestTheSpreadBetweenRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates 600 runs")
	}
	const pairs = 100
	random := rand.New(rand.NewPCG(41, 0))
	gate, err := ParseCondition("mean>+10%")
	if err != nil {
		t.Fatal(err)
	}
	var wrong, found, kept, breached, quiet int
	for i := range uint64(pairs) {
		a, b := math.Exp(0.04*random.NormFloat64()), math.Exp(0.04*random.NormFloat64())
		share := 0.5 + random.Float64()
		before := anchoredRun(t, 2*i, a, share, 1)
		same, _ := diffOf(t, before, anchoredRun(t, 2*i+1, b, share, 1))
		if same.isReal() {
			wrong++
		}
		switch gate.JudgeChange(same).Outcome {
		case GateKept:
			kept++
		case GateBreached:
			breached++
		}
		b = math.Exp(0.01 * random.NormFloat64())
		if same, _ := diffOf(t, anchoredRun(t, 2*i, 1, share, 1), anchoredRun(t, 2*i+1, b, share, 1)); gate.JudgeChange(same).Outcome == GateKept {
			quiet++
		}
		if slower, _ := diffOf(t, anchoredRun(t, 2*i, 1, share, 1), anchoredRun(t, 2*i+1, b, share, 1.3)); gate.JudgeChange(slower).Outcome == GateBreached {
			found++
		}
	}
	t.Logf("of %d pairs: %d call equal programs different, %d keep the gate, %d breach it; on a quiet machine %d keep it; %d find 30 %%", pairs, wrong, kept, breached, quiet, found)
	if wrong > pairs/20 || breached > pairs/100 {
		t.Errorf("%d of %d pairs of equal runs differ, %d breach the gate", wrong, pairs, breached)
	}
	if found < pairs*9/10 || kept < pairs/4 || quiet < pairs*3/4 {
		t.Errorf("%d of %d find 30 %%, %d keep a gate of 10 %%, on a quiet machine %d", found, pairs, kept, quiet)
	}
}

// A machine that was much slower in one run makes times incomparable, and names itself.
func TestAMachineThatChanged(t *testing.T) {
	gate, err := ParseCondition("mean>+10%")
	if err != nil {
		t.Fatal(err)
	}
	slow, quick := anchoredRun(t, 1, 1.4, 1, 1), anchoredRun(t, 2, 1, 1, 1)
	mean, d := diffOf(t, slow, quick)
	finding := gate.JudgeChange(mean)
	if finding.Outcome != GateOpen || !strings.Contains(finding.Why, "the machine itself was 1.4 times slower in the earlier run: its anchor took 3") {
		t.Errorf("found %+v", finding)
	}
	if mean.isReal() || len(d.Doubts) != 2 || d.Anchor[0].Comparable {
		t.Errorf("the mean is %s, doubts %q, anchor %+v", mean.Verdict, d.Doubts, d.Anchor)
	}
	quick.Anchor = nil
	mean, d = diffOf(t, slow, quick)
	finding = gate.JudgeChange(mean)
	if finding.Outcome != GateOpen || !strings.Contains(finding.Why, "the later run has no anchor") || len(d.Anchor) != 0 {
		t.Errorf("found %+v", finding)
	}
}
