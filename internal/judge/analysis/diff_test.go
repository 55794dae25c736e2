package analysis

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// runsThatDiffer draws a run and a later one, in which one cell takes factor times as long.
func runsThatDiffer(t *testing.T, seed uint64, repeats int, factor float64) (before, after *Summary) {
	t.Helper()
	run := func(seed uint64, factor float64) *Summary {
		s := synthetic{seed: seed, noise: 0.05, repeats: repeats}
		for _, variant := range []string{"tcp", "rest", "grpc"} {
			for _, clients := range []int{1, 50} {
				mean := 100 * time.Microsecond
				if variant == "grpc" && clients == 50 {
					mean = time.Duration(float64(mean) * factor)
				}
				s.truths = append(s.truths, truth{part: "matrix", variant: variant, bytes: 64, clients: clients, mean: mean})
			}
		}
		return s.summarize(t)
	}
	return run(2*seed, 1), run(2*seed+1, factor)
}

// A regression of 10 % is found with the repeats that an earlier run asks for, and none where
// there is none.
func TestDiffFindsWhatWasPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates 60 runs")
	}
	pilot, _ := runsThatDiffer(t, 77, 5, 1)
	var repeats int
	for _, p := range pilot.Powers {
		if p.Metric == matrix.Mean && p.PairsForDifference != nil {
			repeats = *p.PairsForDifference
		}
	}
	if repeats < matrix.LeastTrials || repeats > 50 {
		t.Fatalf("the pilot asks for %d repeats", repeats)
	}
	changed := func(seed uint64, factor float64) (of []string) {
		before, after := runsThatDiffer(t, seed, repeats, factor)
		d, err := NewDiff(before, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range d.Differences {
			if one.Metric == matrix.Mean && one.isReal() {
				of = append(of, string(one.Verdict)+" "+one.Cell)
			}
		}
		return of
	}
	found, wrong := 0, 0
	for seed := range uint64(10) {
		if got := changed(seed, 1.1); len(got) == 1 && got[0] == "slower matrix/grpc/echo/64B/c=50" {
			found++
		}
	}
	for seed := uint64(100); seed < 120; seed++ {
		if len(changed(seed, 1)) > 0 {
			wrong++
		}
	}
	t.Logf("%d repeats: found in %d of 10 runs, and in %d of 20 without one", repeats, found, wrong)
	if found < 8 || wrong > 1 {
		t.Errorf("found in %d of 10 runs, want 8; and in %d of 20 without one, want at most 1", found, wrong)
	}
}

func TestDiffOfRunsWithNothingInCommon(t *testing.T) {
	one := synthetic{seed: 1, noise: 0.01, repeats: 3, truths: []truth{{part: "matrix", variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond}}}.summarize(t)
	other := synthetic{seed: 1, noise: 0.01, repeats: 3, truths: []truth{{part: "matrix", variant: "tcp", bytes: 64, clients: 2, mean: time.Millisecond}}}.summarize(t)
	if _, err := NewDiff(one, other); err == nil || !strings.Contains(err.Error(), "no cell in common") {
		t.Errorf("got %v", err)
	}
	if _, err := NewDiff(summarize(t, []*record.Record{}), other); err == nil {
		t.Error("a run without trials can be compared")
	}
}
