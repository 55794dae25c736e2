package analysis

import (
	"math"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// versus is tcp and rest at every concurrency, rest slower by a factor.
func versus(seed uint64, repeats int, factor float64, clients ...int) synthetic {
	s := synthetic{seed: seed, noise: 0.02, repeats: repeats}
	for _, n := range clients {
		mean := float64(n) * float64(50*time.Microsecond)
		s.truths = append(s.truths,
			truth{variant: "rest", bytes: 64, clients: n, mean: time.Duration(mean * factor)},
			truth{variant: "tcp", bytes: 64, clients: n, mean: time.Duration(mean)})
	}
	return s
}

func verdicts(s *Summary) map[compare.Verdict]int {
	counts := map[compare.Verdict]int{}
	for _, c := range s.Comparisons {
		counts[c.Verdict]++
	}
	return counts
}

func TestDifferenceOfATenthIsFound(t *testing.T) {
	s := versus(1, 5, 1.1, 1, 10, 50).summarize(t)
	if len(s.Comparisons) != 12 {
		t.Fatalf("%d comparisons of 4 metrics at 3 concurrencies", len(s.Comparisons))
	}
	for _, c := range s.Comparisons {
		want, verdict := 1/1.1, compare.Faster
		switch c.Metric {
		case matrix.Throughput:
			want = 1.1
		case matrix.CPU:
			want, verdict = 1, compare.Equivalent
		}
		if c.A != "tcp" || c.B != "rest" || c.Verdict != verdict || verdict == compare.Faster && c.P > 0.05 || c.Pairs != 5 {
			t.Errorf("%s at %d clients: %s is %s than %s, p = %.3g, %d pairs", c.Metric, c.Clients, c.A, c.Verdict, c.B, c.P, c.Pairs)
		}
		within(t, c.Metric, c.Ratio.Value, want, 0.05)
	}
}

func TestMoreCPUTimeIsFound(t *testing.T) {
	run := versus(1, 5, 1, 1)
	records := run.records(t)
	for _, r := range records {
		if r.Cell.Variant == "rest" {
			r.Client.UserNS = new(3 * *r.Client.UserNS)
		}
	}
	for _, c := range summarize(t, records).Comparisons {
		if c.Metric == matrix.CPU {
			within(t, "CPU time of tcp over rest's", c.Ratio.Value, 3.0/5, 0.01)
			if c.A != "tcp" || c.Verdict != compare.Less {
				t.Errorf("CPU time of %s is %s", c.A, c.Verdict)
			}
		}
	}
}

func TestVerdictNamesTheSlowerOne(t *testing.T) {
	for _, c := range versus(1, 5, 0.7, 1).summarize(t).Comparisons {
		if c.Metric != matrix.CPU && (c.A != "tcp" || c.Verdict != compare.Slower) {
			t.Errorf("%s: %s is %s", c.Metric, c.A, c.Verdict)
		}
	}
}

func TestEqualVariantsDoNotDiffer(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	with, intervals, holding := 0, 0, 0
	for seed := range seeds {
		s := versus(uint64(seed), 3, 1, 1, 2, 4, 8, 16, 25, 50, 100, 200, 500).summarize(t)
		for _, c := range s.Comparisons {
			intervals++
			if c.Ratio.Interval.Low <= 1 && 1 <= c.Ratio.Interval.High {
				holding++
			}
		}
		v := verdicts(s)
		if v[compare.Faster]+v[compare.Slower] > 0 {
			t.Logf("seed %d: %v", seed, v)
			with++
		}
	}
	if with > 1 {
		t.Errorf("a difference between A and A in %d of %d runs", with, seeds)
	}
	t.Logf("%d of %d runs with a difference; %d of %d intervals hold 1", with, seeds, holding, intervals)
	if share := float64(holding) / float64(intervals); share < 0.9 || share > 0.99 {
		t.Errorf("%.3f of the intervals of 95 %% hold the truth", share)
	}
}

// Nothing that the machine did to one repeat as a whole is a difference.
func TestRepeatsArePaired(t *testing.T) {
	s := versus(3, 5, 1.1, 1)
	records := s.records(t)
	for i, r := range records {
		spoilt := s.truths[i%2].record(t, 1+5*float64(r.Repeat%2))
		spoilt.Trial, spoilt.Repeat = r.Trial, r.Repeat
		records[i] = spoilt
	}
	// Without one trial the others still find their own.
	records[2].Failure = "the server died"
	for _, c := range summarize(t, records).Comparisons {
		if c.Metric != matrix.CPU && c.Verdict != compare.Faster || c.Pairs != 4 {
			t.Errorf("%s: %s, %v to %v", c.Metric, c.Verdict, c.Ratio.Interval.Low, c.Ratio.Interval.High)
		}
	}
}

func TestTwoTrialsDecideNothing(t *testing.T) {
	for _, c := range versus(1, 2, 3, 1, 10).summarize(t).Comparisons {
		if c.Verdict != compare.Undecided || c.Ratio.Interval != nil || !math.IsNaN(c.P) {
			t.Errorf("%+v", c)
		}
		if c.Metric == matrix.Mean {
			within(t, "ratio", c.Ratio.Value, 1.0/3, 0.1)
		}
	}
}

func TestInvalidTrialsAreNotAveragedIn(t *testing.T) {
	records := versus(1, 5, 1.1, 1).records(t)
	wrong := truth{variant: "tcp", bytes: 64, clients: 1, mean: time.Second}.record(t, 1)
	wrong.Trial, wrong.Repeat = records[1].Trial, records[1].Repeat
	wrong.Checks = []record.Check{{Name: "generator-bound", Level: record.Invalid, Detail: "the client was busy"}}
	records[1] = wrong
	s := summarize(t, records)
	tcp := s.Cells[0]
	if tcp.Variant != "tcp" || tcp.Trials != 5 || tcp.Valid != 4 || s.Invalid != 1 {
		t.Fatalf("%s: %d of %d trials valid, %d invalid in the run", tcp.Variant, tcp.Valid, tcp.Trials, s.Invalid)
	}
	within(t, "mean", tcp.Service.Mean.Value, 50, 0.05)
	if tcp.Service.Max.Value > 1000 {
		t.Errorf("the maximum, %v, is that of the invalid trial", tcp.Service.Max.Value)
	}
	if last := tcp.Curve[len(tcp.Curve)-1][1]; last > 1000 {
		t.Errorf("the curve ends at %v, which is the invalid trial's", last)
	}
	for _, c := range s.Comparisons {
		if c.Pairs != 4 {
			t.Errorf("%s: %d pairs, want 4", c.Metric, c.Pairs)
		}
	}
	if r := tcp.Repeats[0]; r.Valid || *r.MeanUS < 0.9e6 {
		t.Errorf("the invalid trial is shown as %+v", r)
	}
	if f := tcp.Findings; len(f) != 1 || f[0].Name != "generator-bound" || f[0].Trials != 1 {
		t.Errorf("findings: %+v", f)
	}
}

func TestACellWithoutAValidTrialShowsWhatWasRefused(t *testing.T) {
	records := versus(1, 3, 1.1, 1).records(t)
	for _, r := range records {
		if r.Cell.Variant == "tcp" {
			r.Checks = []record.Check{{Name: "bookkeeping", Level: record.Invalid, Detail: "no"}}
		}
	}
	s := summarize(t, records)
	c := s.Cells[0]
	if c.IsValid() || c.Refused != 3 || c.Throughput.Value == 0 || c.Throughput.Interval != nil || c.Service.Mean.Interval != nil || c.Curve != nil || len(c.Repeats) != 3 {
		t.Errorf("%+v", c)
	}
	if len(s.Comparisons) != 0 || len(s.WarmUps) != 0 {
		t.Errorf("it takes part in %d comparisons and %d warm-ups", len(s.Comparisons), len(s.WarmUps))
	}
}
