package matrix

import (
	"math"
	"testing"

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
