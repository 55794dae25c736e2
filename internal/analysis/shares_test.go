package analysis

import (
	"math"
	"testing"
	"time"
)

// ladderOf is the way from gRPC to REST with JSON, with the given mean times in
// microseconds.
func ladderOf(noise float64, repeats int, means ...int) synthetic {
	s := synthetic{seed: 11, noise: noise, repeats: repeats}
	for i, variant := range []string{"grpc", "h2", "h2:codec=json", "h1:codec=json", "rest-json"}[:len(means)] {
		s.truths = append(s.truths, truth{part: "shares", variant: variant, bytes: 0, clients: 50, mean: time.Duration(means[i]) * time.Microsecond})
	}
	return s
}

func sharesBy(t *testing.T, s *Summary, metric string) Shares {
	t.Helper()
	for _, shares := range s.Shares {
		if shares.Metric == metric {
			return shares
		}
	}
	t.Fatalf("no shares by %s", metric)
	return Shares{}
}

func TestSharesAreRecovered(t *testing.T) {
	means := []int{100, 150, 180, 160, 200}
	s := sharesBy(t, ladderOf(0.01, 5, means...).summarize(t), Mean)
	within(t, "the whole ratio", s.Ratio.Value, 2, 0.03)
	if !s.Decided || s.From != "grpc" || s.To != "rest-json" || s.Pairs != 5 || len(s.Steps) != 4 {
		t.Fatalf("%+v", s)
	}
	sum := 0.0
	for i, step := range s.Steps {
		ratio := float64(means[i+1]) / float64(means[i])
		within(t, string(step.Layer)+"'s ratio", step.Ratio.Value, ratio, 0.03)
		want := math.Log(ratio) / math.Log(2)
		if in := step.Share.Interval; in == nil || want < in.Low || want > in.High || in.High-in.Low > 0.25 || !step.Decided {
			t.Errorf("%s has %.2f of the difference, told is %+v %+v", step.Layer, want, step.Share, in)
		}
		sum += step.Share.Value
	}
	within(t, "the sum of the shares", sum, 1, 1e-9)
}

func TestALayerWithoutAPartIsUndecided(t *testing.T) {
	s := sharesBy(t, ladderOf(0.01, 5, 100, 150, 150, 160, 200).summarize(t), Mean)
	step := s.Steps[1]
	if step.Layer != Encoding || step.Decided || step.Share.Interval == nil || step.Share.Interval.Low > 0 || step.Share.Interval.High < 0 {
		t.Errorf("an encoding that costs nothing is told as %+v", step)
	}
}

func TestNoDifferenceIsNotShared(t *testing.T) {
	s := sharesBy(t, ladderOf(0.01, 5, 100, 150, 180, 160, 100).summarize(t), Mean)
	if s.Decided || s.Steps[0].Share.Value != 0 {
		t.Errorf("no difference is shared out: %+v", s)
	}
	if once := sharesBy(t, ladderOf(0.01, 1, 100, 150, 180, 160, 200).summarize(t), Mean); once.Decided || once.Ratio.Interval != nil {
		t.Errorf("one trial decides: %+v", once)
	}
}

func TestALadderNeedsEveryRung(t *testing.T) {
	if s := ladderOf(0.01, 3, 100, 150, 180, 160).summarize(t); s.Shares != nil {
		t.Errorf("without the last rung: %+v", s.Shares)
	}
	mixed := ladderOf(0.01, 3, 100, 150, 180, 160, 200)
	mixed.truths[1].variant = "h2:tls=on" // all else is in the clear
	if s := mixed.summarize(t); s.Shares != nil {
		t.Errorf("with one rung over TLS: %+v", s.Shares)
	}
	for i := range mixed.truths {
		mixed.truths[i].variant = []string{"grpc:tls=on", "h2:tls=on", "h2:codec=json,tls=on", "h1:codec=json,tls=on", "rest-json:tls=on"}[i]
	}
	if s := mixed.summarize(t); len(s.Shares) != 3 {
		t.Errorf("with all rungs over TLS: %+v", s.Shares)
	}
}
