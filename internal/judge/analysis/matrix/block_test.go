package matrix

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// inBlock adds a trial whose slices have the given mean times in microseconds.
func inBlock(t *testing.T, p *Point, block int, means []float64) {
	t.Helper()
	r := &record.Record{Trial: len(p.Trials), Repeat: block, Block: block, WindowNS: 1e9}
	h := latency.NewHistogram()
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for i, mean := range means {
		const calls = 100
		for range calls {
			recorder.Record(int64(mean * 1e3))
		}
		r.Slices = append(r.Slices, record.Slice{AtNS: int64(i) * 50e6, TookNS: 25e6, Requests: calls, Completed: int64(25e6 / (mean * 1e3)), SumNS: int64(calls * mean * 1e3)})
		r.Requests += calls
		r.Completed += int64(25e6 / (mean * 1e3))
	}
	h.Add(recorder)
	var err error
	if r.Service, err = h.Distribution(); err != nil {
		t.Fatal(err)
	}
	if err := p.AddTrial(r); err != nil {
		t.Fatal(err)
	}
}

// What disturbs a round hits all variants and cancels; what disturbs one slice counts little; and
// the figures of a table have the ratio that is printed.
func TestBlocksAreAligned(t *testing.T) {
	fast, slow := &Point{}, &Point{}
	for block := 1; block <= 3; block++ {
		var of, against []float64
		for round := range 20 {
			noise := 1 + float64((round*7+block*3)%10)
			of, against = append(of, 100*noise), append(against, 110*noise)
		}
		against[2*block] *= 50 // a stall of the slow one
		inBlock(t, fast, block, of)
		inBlock(t, slow, block, against)
	}
	AlignBlocks([]*Point{fast, slow})
	fit := NewFit([]*Point{fast, slow}, Mean)
	ratio, _ := fit.Ratio(slow, fast)
	if math.Abs(ratio.Value-1.1) > 0.005 {
		t.Errorf("a ratio of %v, want 1.1", ratio.Value)
	}
	shown := fit.Figure(slow).Value / fit.Figure(fast).Value
	if math.Abs(shown-ratio.Value) > 1e-9 {
		t.Errorf("the figures have a ratio of %v, and %v is printed", shown, ratio.Value)
	}
	if rates, _ := NewFit([]*Point{fast, slow}, Throughput).Ratio(fast, slow); math.Abs(rates.Value-1.1) > 0.02 {
		t.Errorf("a ratio of the throughputs of %v, want 1.1", rates.Value)
	}
}

func TestTooFewSlicesAreNotAligned(t *testing.T) {
	one, other := &Point{}, &Point{}
	inBlock(t, one, 1, []float64{100})
	inBlock(t, other, 1, []float64{200})
	AlignBlocks([]*Point{one, other})
	if got := Metrics[Mean](one.Trials[0]); math.Abs(got-100) > 1 {
		t.Errorf("a mean of %v, want 100", got)
	}
}

// Rounds that the sentinels saw disturbed are left out. That changes no ratio of equal variants, even
// if one of them loses more of its slices, and narrows the spread of the others.
func TestDisturbedRoundsAreLeftOut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ratios := func(seen bool) (mean, spread float64) {
		var logs []float64
		for range 300 {
			one, other := &Point{}, &Point{}
			var means, others [20]float64
			var lost, lostOther [20]int64
			for i := range means {
				means[i], others[i] = 100*math.Exp(0.1*random.NormFloat64()), 100*math.Exp(0.1*random.NormFloat64())
				if random.Float64() < 0.05 { // another program takes up to half of the slice
					share := random.Float64() / 2
					lost[i], means[i] = int64(share*25e6), means[i]/(1-share)
				}
				if random.Float64() < 0.10 {
					share := random.Float64() / 2
					lostOther[i], others[i] = int64(share*25e6), others[i]/(1-share)
				}
			}
			inBlock(t, one, 1, means[:])
			inBlock(t, other, 1, others[:])
			for i := range lost {
				if seen {
					one.Trials[0].Slices[i].LostNS, other.Trials[0].Slices[i].LostNS = lost[i], lostOther[i]
				}
			}
			AlignBlocks([]*Point{one, other})
			logs = append(logs, math.Log(Metrics[Mean](one.Trials[0])/Metrics[Mean](other.Trials[0])))
		}
		return stat.MeanStdDev(logs, nil)
	}
	mean, spread := ratios(true)
	blindMean, blindSpread := ratios(false)
	t.Logf("seen: %+.2f %% and %.2f %%; not seen: %+.2f %% and %.2f %%", 100*mean, 100*spread, 100*blindMean, 100*blindSpread)
	if math.Abs(mean) > 0.005 || math.Abs(mean) > math.Abs(blindMean) || spread > 0.95*blindSpread {
		t.Errorf("a mean logarithm of %v with a spread of %v; %v and %v without the sentinels", mean, spread, blindMean, blindSpread)
	}
}
