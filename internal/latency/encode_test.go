package latency

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
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

func TestMergeEqualsOneHistogram(t *testing.T) {
	both := sampleHistogram(1, 500)
	both.Merge(sampleHistogram(2, 700))
	both.Merge(NewHistogram())

	one := NewRecorder()
	defer one.Close()
	for seed, samples := range map[uint64]int{1: 500, 2: 700} {
		random := rand.New(rand.NewPCG(seed, 0))
		for range samples {
			one.Record(int64(random.ExpFloat64() * 250_000))
		}
	}
	want := NewHistogram(one)
	if both.totals != want.totals || !both.buckets.Equals(want.buckets) {
		t.Errorf("merged %+v, want %+v", both.totals, want.totals)
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

func TestPercentilesGoAsDeepAsTheSamples(t *testing.T) {
	if points := NewHistogram().Percentiles(); len(points) != 0 {
		t.Errorf("an empty histogram has %d points", len(points))
	}
	for _, test := range []struct{ samples, points int }{{1, 2}, {10, 11}, {1000, 29}, {100_000, 47}} {
		histogram := sampleHistogram(4, test.samples)
		points := histogram.Percentiles()
		if len(points) != test.points {
			t.Errorf("%d samples give %d points, want %d", test.samples, len(points), test.points)
		}
		for i := 1; i < len(points); i++ {
			if points[i].Quantile <= points[i-1].Quantile || points[i].Value < points[i-1].Value {
				t.Errorf("point %d %v does not follow %v", i, points[i], points[i-1])
			}
		}
		if first, last := points[0], points[len(points)-1]; first != (Point{0, histogram.Min()}) || last != (Point{1, histogram.Max()}) {
			t.Errorf("the curve runs from %v to %v, want the exact ends", first, last)
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
