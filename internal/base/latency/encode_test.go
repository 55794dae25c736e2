package latency

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func sampleHistogram(seed uint64, samples int) *Histogram {
	random := rand.New(rand.NewPCG(seed, 0))
	r := NewRecorder()
	defer r.Close()
	for range samples {
		r.Record(int64(random.ExpFloat64() * 250_000))
	}
	return NewHistogram(r)
}

func TestDistributionSurvivesJSON(t *testing.T) {
	for _, samples := range []int{0, 1, 1000} {
		histogram := sampleHistogram(7, samples)
		distribution, err := histogram.Distribution()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(distribution)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{`"count"`, `"sum_ns"`, `"min_ns"`, `"max_ns"`, `"hdr":"HIST`} {
			if !strings.Contains(string(text), name) {
				t.Errorf("%s lacks %s", text, name)
			}
		}
		var read Distribution
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		back, err := read.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if back.totals != histogram.totals {
			t.Errorf("totals %+v came back as %+v", histogram.totals, back.totals)
		}
		if !back.buckets.Equals(histogram.buckets) {
			t.Errorf("the buckets of %d samples came back different", samples)
		}
	}
}

func TestDecodeAloneIsTrueToThreeDigits(t *testing.T) {
	histogram := sampleHistogram(8, 10_000)
	encoded, err := histogram.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]time.Duration{
		{back.Min(), histogram.Min()},
		{back.Max(), histogram.Max()},
		{back.Mean(), histogram.Mean()},
		{back.Quantile(0.5), histogram.Quantile(0.5)},
	} {
		if got, want := float64(pair[0]), float64(pair[1]); got < want*0.998-1 || got > want*1.002+1 {
			t.Errorf("decoded %v, want %v", pair[0], pair[1])
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	good, err := sampleHistogram(3, 100).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*Distribution){
		"count":   func(d *Distribution) { d.Count++ },
		"sum":     func(d *Distribution) { d.Sum = d.Max*d.Count + 1 },
		"minimum": func(d *Distribution) { d.Min = d.Max + 1 },
		"maximum": func(d *Distribution) { d.Max *= 2 },
		"clamped": func(d *Distribution) { d.Clamped = -1 },
		"buckets": func(d *Distribution) { d.Histogram = d.Histogram[:len(d.Histogram)/2] },
	} {
		damaged := good
		damage(&damaged)
		if _, err := damaged.Decode(); err == nil {
			t.Errorf("a distribution with a wrong %s was accepted", name)
		}
	}
	if _, err := good.Decode(); err != nil {
		t.Errorf("the undamaged one was refused: %v", err)
	}
}

func TestCountsAreTheHistogram(t *testing.T) {
	for range NewHistogram().Counts() {
		t.Error("an empty histogram has a count")
	}
	for _, samples := range []int{1, 10, 100_000} {
		histogram := sampleHistogram(4, samples)
		var total int64
		last := time.Duration(-1)
		for duration, count := range histogram.Counts() {
			if duration <= last {
				t.Errorf("%v follows %v", duration, last)
			}
			if total++; histogram.Quantile((float64(total)-0.4)/float64(samples)) != duration {
				t.Errorf("the %d. of %d samples is %v, not as its quantile", total, samples, duration)
			}
			total += count - 1
			last = duration
		}
		if total != int64(samples) || last != histogram.Max() {
			t.Errorf("%d samples up to %v, want %d to %v", total, last, samples, histogram.Max())
		}
	}
}

// Histograms of other programs count from 1 ns too, but up to another value.
func TestDecodesOtherRanges(t *testing.T) {
	for _, c := range []struct {
		highest time.Duration
		values  []int64
		bad     bool
	}{
		{time.Second, []int64{0, 5, 700_000_123}, false},
		{time.Hour, []int64{0, 5, 700_000_123}, false},
		{time.Hour, []int64{5, int64(2 * time.Minute)}, true},
	} {
		other := hdrhistogram.New(lowestValue, int64(c.highest), significantDigits)
		recorder := NewRecorder()
		defer recorder.Close()
		for _, v := range c.values {
			if err := other.RecordValue(v); err != nil {
				t.Fatal(err)
			}
			recorder.Record(v)
		}
		encoded, err := other.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(string(encoded))
		if (err != nil) != c.bad {
			t.Errorf("%v up to %v: %v", c.values, c.highest, err)
		}
		if err != nil {
			continue
		}
		want := NewHistogram(recorder)
		if !got.buckets.Equals(want.buckets) || got.Count() != want.Count() || got.Min() != 0 || !sameBucket(got.max, want.max) {
			t.Errorf("%v up to %v: %d from %v to %v", c.values, c.highest, got.Count(), got.Min(), got.Max())
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, samples := range []int{0, 1, 300} {
		encoded, err := sampleHistogram(5, samples).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add("HISTFAAA")
	f.Fuzz(func(t *testing.T, encoded string) {
		histogram, err := Decode(encoded)
		if err != nil {
			return
		}
		again, err := histogram.Encode()
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
		if back.totals != histogram.totals {
			t.Errorf("%+v came back as %+v", histogram.totals, back.totals)
		}
		if q := histogram.Quantile(0.5); q < histogram.Min() || q > histogram.Max() {
			t.Errorf("median %v outside %v to %v", q, histogram.Min(), histogram.Max())
		}
	})
}
