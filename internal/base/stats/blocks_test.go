package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// drawBlocks draws blocks of variants that differ by a known logarithm.
type drawBlocks struct {
	blocks, variants int
	spread           float64 // standard deviation of the blocks
	noise            []float64
	lost             float64 // share of trials that are lost
	apart            bool    // no block has two variants
}

func (d drawBlocks) draw(random *rand.Rand) (all []Observation) {
	for block := range d.blocks {
		effect := d.spread * random.NormFloat64()
		for v := range d.variants {
			o := Observation{Variant: v, Block: block, Log: float64(v) + effect + d.noise[v%len(d.noise)]*random.NormFloat64()}
			if d.apart {
				o.Block += v * d.blocks
				o.Log += d.spread*random.NormFloat64() - effect
			}
			if random.Float64() >= d.lost {
				all = append(all, o)
			}
		}
	}
	return all
}

func countOf(all []Observation, variant int) (n int) {
	for _, o := range all {
		if o.Variant == variant {
			n++
		}
	}
	return n
}

func TestFitOfCompleteBlocksIsPaired(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	all := drawBlocks{blocks: 5, variants: 3, spread: 0.5, noise: []float64{0.1}}.draw(random)
	var differences, alone []float64
	for block := range 5 {
		differences = append(differences, all[3*block+1].Log-all[3*block].Log)
		alone = append(alone, all[3*block].Log)
	}
	for _, spread := range []float64{0, 1, 30, maxSpread} {
		f := FitBlocks(3, all, spread)
		for what, c := range map[string]struct {
			Contrast
			of []float64
		}{"difference": {f.Difference(1, 0), differences}, "mean": {f.Contrast([]float64{1, 0, 0}), alone}} {
			mean, standardError := meanAndError(c.of)
			if math.Abs(c.Mean-mean) > 1e-6 || math.Abs(c.StandardError/standardError-1) > 1e-6 || math.Abs(c.Freedom-4) > 1e-6 {
				t.Errorf("spread %v: the %s is %+v, want %v ± %v with 4 degrees of freedom", spread, what, c, mean, standardError)
			}
		}
		if pairs := 2 / f.Difference(1, 0).Unit; math.Abs(pairs-5) > 1e-6 {
			t.Errorf("spread %v: %v pairs, want 5", spread, pairs)
		}
	}
}

// welch estimates the difference of two independent samples.
func welch(a, b []float64) LogRatio {
	meanA, errorA := meanAndError(a)
	meanB, errorB := meanAndError(b)
	squareA, squareB := errorA*errorA, errorB*errorB
	sum := squareA + squareB
	return LogRatio{
		Mean: meanA - meanB, StandardError: math.Sqrt(sum),
		Freedom: sum * sum / (squareA*squareA/float64(len(a)-1) + squareB*squareB/float64(len(b)-1)),
	}
}

func TestFitWithoutPairsIsWelchs(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	all := drawBlocks{blocks: 5, variants: 2, spread: 0.1, noise: []float64{0.1, 0.3}, apart: true}.draw(random)[1:]
	var logs [2][]float64
	for _, o := range all {
		logs[o.Variant] = append(logs[o.Variant], o.Log)
	}
	want := welch(logs[1], logs[0])
	for _, spread := range []float64{0, 1, 30} {
		c := FitBlocks(2, all, spread).Difference(1, 0)
		if math.Abs(c.Mean-want.Mean) > 1e-9 || math.Abs(c.StandardError/want.StandardError-1) > 1e-9 || c.Freedom < 3 || c.Freedom > 7 {
			t.Errorf("spread %v: %+v, want %+v", spread, c, want)
		}
	}
}

// Intervals of 95 % hold the truth in 92 to 97 %, whatever was lost.
func TestFitCovers(t *testing.T) {
	if testing.Short() {
		t.Skip("short: draws thousands of experiments")
	}
	const experiments = 3000
	for _, c := range []struct {
		name string
		drawBlocks
	}{
		{"complete", drawBlocks{blocks: 5, variants: 2, noise: []float64{0.05}, spread: 0.1}},
		{"a third lost", drawBlocks{blocks: 6, variants: 2, noise: []float64{0.05}, spread: 0.1, lost: 0.33}},
		{"a third of ten lost", drawBlocks{blocks: 10, variants: 3, noise: []float64{0.05}, spread: 0.1, lost: 0.33}},
		{"a third lost, blocks alike", drawBlocks{blocks: 6, variants: 3, noise: []float64{0.05}, lost: 0.33}},
		{"a third lost, blocks far apart", drawBlocks{blocks: 6, variants: 3, noise: []float64{0.02}, spread: 0.5, lost: 0.33}},
		{"a third lost, one variant noisy", drawBlocks{blocks: 8, variants: 2, noise: []float64{0.03, 0.12}, spread: 0.05, lost: 0.33}},
		{"no pairs", drawBlocks{blocks: 5, variants: 2, noise: []float64{0.05}, spread: 0.05, apart: true}},
		{"no pairs, one variant noisy", drawBlocks{blocks: 5, variants: 2, noise: []float64{0.02, 0.1}, apart: true}},
	} {
		random := rand.New(rand.NewPCG(3, 1))
		covered, alone, drawn := 0, 0, 0
		var widths []float64
		for range experiments {
			all := c.draw(random)
			least := len(all)
			for v := range c.variants {
				least = min(least, countOf(all, v))
			}
			if least < leastTrials {
				continue
			}
			drawn++
			spread := BlockSpread(c.variants, all)
			if math.IsNaN(spread) {
				spread = 1
			}
			f := FitBlocks(c.variants, all, spread)
			holds := func(c Contrast, truth float64) bool {
				return math.Abs(c.Mean-truth) <= c.StandardError*NewStudent(c.Freedom).Quantile(0.975)
			}
			d := f.Difference(1, 0)
			widths = append(widths, d.StandardError)
			if holds(d, 1) {
				covered++
			}
			own := make([]float64, c.variants)
			own[0] = 1
			if holds(f.Contrast(own), 0) {
				alone++
			}
		}
		share, shareAlone := 100*float64(covered)/float64(drawn), 100*float64(alone)/float64(drawn)
		t.Logf("| %s | %.1f %% | %.1f %% | %.3f (%d)", c.name, share, shareAlone, stat.Mean(widths, nil), drawn)
		if share < 92 || share > 97.5 || shareAlone < 92 || shareAlone > 97.5 {
			t.Errorf("%s: intervals hold the ratio in %.1f %%, the figure in %.1f %%", c.name, share, shareAlone)
		}
	}
}
