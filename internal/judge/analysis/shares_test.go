package analysis

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// ladderOf is the way from gRPC to REST with JSON, with the given mean times in
// microseconds.
func ladderOf(noise float64, repeats int, means ...int) synthetic {
	s := synthetic{seed: 11, noise: noise, repeats: repeats}
	for i, variant := range ladder[:len(means)] {
		s.truths = append(s.truths, truth{part: "shares", variant: variant, bytes: 0, clients: 50, mean: time.Duration(means[i]) * time.Microsecond})
	}
	return s
}

// changing is a manifest whose scenario says what changes on the way.
func changing(t *testing.T, variants ...string) *record.Manifest {
	t.Helper()
	part := map[string]any{"name": "shares", "stacks": variants, "changes": []string{"library", "encoding", "http", "framework"}}
	text, err := json.Marshal(map[string]any{"parts": []any{part}})
	if err != nil {
		t.Fatal(err)
	}
	m := manifest(1)
	m.Scenario = text
	return m
}

func (s synthetic) shares(t *testing.T, variants ...string) *Summary {
	t.Helper()
	summary, err := Summarize(changing(t, variants...), JudgedTrials{Records: s.records(t)}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

var ladder = []string{"grpc", "h2", "h2:codec=json", "h1:codec=json", "rest-json"}

func sharesBy(t *testing.T, s *Summary, metric string) compare.Shares {
	t.Helper()
	for _, shares := range s.Shares {
		if shares.Metric == metric {
			return shares
		}
	}
	t.Fatalf("no shares by %s", metric)
	return compare.Shares{}
}

func TestSharesAreRecovered(t *testing.T) {
	means := []int{100, 150, 180, 160, 200}
	s := sharesBy(t, ladderOf(0.01, 5, means...).shares(t, ladder...), matrix.Mean)
	within(t, "the whole ratio", s.Ratio.Value, 2, 0.03)
	if !s.Decided || s.From != "grpc" || s.To != "rest-json" || s.Pairs != 5 || len(s.Steps) != 4 {
		t.Fatalf("%+v", s)
	}
	sum := 0.0
	for i, step := range s.Steps {
		ratio := float64(means[i+1]) / float64(means[i])
		within(t, step.Change+"'s ratio", step.Ratio.Value, ratio, 0.03)
		want := math.Log(ratio) / math.Log(2)
		if in := step.Share.Interval; in == nil || want < in.Low || want > in.High || in.High-in.Low > 0.25 || !step.Decided {
			t.Errorf("%s has %.2f of the difference, told is %+v %+v", step.Change, want, step.Share, in)
		}
		sum += step.Share.Value
	}
	within(t, "the sum of the shares", sum, 1, 1e-9)
}

func TestALayerWithoutAPartIsUndecided(t *testing.T) {
	s := sharesBy(t, ladderOf(0.01, 5, 100, 150, 150, 160, 200).shares(t, ladder...), matrix.Mean)
	step := s.Steps[1]
	if step.Change != "encoding" || step.Decided || step.Share.Interval == nil || step.Share.Interval.Low > 0 || step.Share.Interval.High < 0 {
		t.Errorf("an encoding that costs nothing is told as %+v", step)
	}
}

func TestNoDifferenceIsNotShared(t *testing.T) {
	s := sharesBy(t, ladderOf(0.01, 5, 100, 150, 180, 160, 100).shares(t, ladder...), matrix.Mean)
	if s.Decided || s.Steps[0].Share != nil {
		t.Errorf("no difference is shared out: %+v", s)
	}
	if once := sharesBy(t, ladderOf(0.01, 1, 100, 150, 180, 160, 200).shares(t, ladder...), matrix.Mean); once.Decided || once.Ratio.Interval != nil {
		t.Errorf("one trial decides: %+v", once)
	}
}

func TestSharesGoAsFarAsVariantsWereMeasured(t *testing.T) {
	s := sharesBy(t, ladderOf(0.01, 3, 100, 150, 180, 160).shares(t, ladder...), matrix.Mean)
	if s.To != "h1:codec=json" || len(s.Steps) != 3 {
		t.Errorf("without the last variant: %+v", s)
	}
	within(t, "the ratio without the last variant", s.Ratio.Value, 1.6, 0.05)
	if s := ladderOf(0.01, 3, 100, 150).shares(t, ladder...); s.Shares != nil {
		t.Errorf("with one change: %+v", s.Shares)
	}
	if s := ladderOf(0.01, 3, 100, 150, 180, 160, 200).summarize(t); s.Shares != nil {
		t.Errorf("of a scenario that names no changes: %+v", s.Shares)
	}
	yardstick := append(slices.Clone(ladder), "file")
	if s := ladderOf(0.01, 3, 100, 150, 180, 160, 200).shares(t, yardstick...); len(s.Shares) != 3 {
		t.Errorf("with a yardstick behind: %+v", s.Shares)
	}
}
