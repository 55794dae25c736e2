package latency

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Merged, the distributions of parts are that of all samples: bucket for bucket, and in each
// total.
func TestMergedIsTheWhole(t *testing.T) {
	for _, parts := range []int{1, 2, 7, 40} {
		random := rand.New(rand.NewPCG(uint64(parts), 1))
		whole := NewRecorder()
		some := make([]*Recorder, parts)
		for i := range some {
			some[i] = NewRecorder()
		}
		for range 20_000 {
			ns := int64(random.ExpFloat64() * 300_000)
			if random.IntN(5000) == 0 {
				ns += 70e9 // beyond the buckets
			}
			whole.Record(ns)
			some[random.IntN(parts)].Record(ns)
		}
		var each []Distribution
		for _, r := range some {
			each = append(each, mustDistribution(t, NewHistogram(r)))
			r.Close()
		}
		merged, err := MergeDistributions(append(each, Distribution{})...) // one that has none
		if err != nil {
			t.Fatal(err)
		}
		want := mustDistribution(t, NewHistogram(whole))
		whole.Close()
		if merged.Count != want.Count || merged.Sum != want.Sum || merged.Min != want.Min || merged.Max != want.Max || merged.Clamped != want.Clamped {
			t.Errorf("%d parts: %+v, want the totals of %+v", parts, merged, want)
		}
		if want.Clamped == 0 {
			t.Error("no sample was beyond the buckets")
		}
		if merged.Histogram != want.Histogram {
			t.Errorf("%d parts: the buckets differ from those of all samples", parts)
		}
	}
}

func mustDistribution(t *testing.T, h *Histogram) Distribution {
	t.Helper()
	d, err := h.Distribution()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMergedFromTotalsHasTotals(t *testing.T) {
	merged, err := MergeDistributions(
		Distribution{Count: 3, Sum: 30, Min: 5, Max: 15}, mustDistribution(t, sampleHistogram(3, 100)))
	if err != nil {
		t.Fatal(err)
	}
	if !merged.OnlyTotals() || merged.Count != 103 || merged.Min > 5 {
		t.Errorf("%+v, want 103 samples without buckets", merged)
	}
}

func TestMergeRefusesWhatContradictsItself(t *testing.T) {
	good := mustDistribution(t, sampleHistogram(3, 100))
	bad := good
	bad.Count++
	if _, err := MergeDistributions(good, bad); err == nil || !strings.Contains(err.Error(), "distribution 2 of 2") {
		t.Errorf("%v: want the second refused", err)
	}
}

func TestCoarseAddsWhatOthersSent(t *testing.T) {
	sum := NewCoarseHistogram()
	whole := hdrhistogram.New(256, 1<<36-1, 2)
	for part := range 3 {
		own := hdrhistogram.New(256, 1<<36-1, 2)
		for i := range 500 {
			ns := int64(1+part*1000+i) * 1000
			_ = own.RecordValue(ns)
			_ = whole.RecordValue(ns)
		}
		encoded, err := own.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		if err := sum.AddEncoded(string(encoded)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sum.AddEncoded(""); err != nil {
		t.Error(err)
	}
	if sum.Count() != 1500 || int64(sum.Quantile(0.5)) != whole.ValueAtPercentile(50) || int64(sum.Quantile(1)) != whole.Max() {
		t.Errorf("%d durations, %v in the median, %v at most; want 1500, %d, %d", sum.Count(), sum.Quantile(0.5), sum.Quantile(1), whole.ValueAtPercentile(50), whole.Max())
	}
	fine, err := sampleHistogram(3, 10).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{fine: "with 3 digits", "no histogram": "decode"} {
		if err := sum.AddEncoded(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want an error that says %q", err, says)
		}
	}
}
