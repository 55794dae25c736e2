package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// cellsOf returns the cells of three variants at each of the points, repeated.
func cellsOf(points, repeats int) []record.Cell {
	var cells []record.Cell
	for range repeats {
		for n := range points {
			for _, name := range []string{"a", "b", "c"} {
				cells = append(cells, record.Cell{Part: "p", Variant: name, Place: record.Place{Clients: n + 1}, Load: record.Load{Model: "closed", DurationNS: 1e9}})
			}
		}
	}
	return cells
}

// recordsOf are a trial of each cell, in the order of cellsOf, with means that differ by
// the noise.
func recordsOf(cells []record.Cell, noise float64) []*record.Record {
	random := rand.New(rand.NewPCG(1, 1))
	repeats := map[record.Cell]int{}
	records := make([]*record.Record, len(cells))
	for i, cell := range cells {
		repeats[cell]++
		records[i] = &record.Record{Trial: i, Repeat: repeats[cell], Cell: cell, WindowNS: 1e9}
		records[i].Service = latency.Distribution{Count: 1000, Sum: int64(1e8 * math.Exp(noise*random.NormFloat64())), Min: 1, Max: 1e9}
	}
	return records
}

func TestForecastKnowsWhoseNoiseItIs(t *testing.T) {
	plan := cellsOf(4, 5)
	others := cellsOf(4, 6)
	for i := range others {
		others[i].Load.DurationNS *= 10
	}
	f := NewForecast(Planned{Cells: plan})
	if len(f.pairs) != 12 || f.Repeats() != 5 {
		t.Fatalf("%d comparisons of %d repeats, want 12 of 5", len(f.pairs), f.Repeats())
	}
	if p := f.Power(); p != nil || !f.NeedsOtherRuns() {
		t.Errorf("it knows %+v without having learnt", p)
	}
	f.AddRun(&record.Manifest{}, recordsOf(others, 0.2))
	f.AddRun(&record.Manifest{}, recordsOf(cellsOf(4, 2), 0.2))
	f.AddRun(&record.Manifest{Scenario: []byte("{")}, recordsOf(plan, 0.2))
	f.AddRun(&record.Manifest{}, nil)
	p := f.Power()
	if len(f.ofSame) != 0 || len(f.ofOthers) != 12 || f.HasEnoughRuns() || f.NeedsOtherRuns() {
		t.Errorf("the noise is of %d comparisons of the same cells and %d of others", len(f.ofSame), len(f.ofOthers))
	}
	within(t, "noise of others", p.Noise, 0.2, 0.3)
	f.AddRun(&record.Manifest{}, recordsOf(plan, 0.02))
	p = f.Power()
	if len(f.ofSame) != 12 || !f.HasEnoughRuns() || p.Metric != matrix.Mean || p.Comparisons != 12 || p.Pairs != 5 || p.Unit != "repeat" {
		t.Errorf("%+v by the noise of %d comparisons", p, len(f.ofSame))
	}
	within(t, "noise of the same cells", p.Noise, 0.02, 0.3)
}

func TestForecastOfWhatIsCompared(t *testing.T) {
	if f := NewForecast(Planned{Cells: cellsOf(1, 3)[:1]}); f != nil {
		t.Errorf("one cell is compared with nothing, found %+v", f)
	}
	cells := cellsOf(1, 1)
	for i := range cells {
		cells[i].Load.Model = "search"
	}
	f := NewForecast(Planned{Cells: cells})
	if f == nil || f.metric != matrix.Throughput || f.Repeats() != 1 {
		t.Fatalf("searches are compared by %+v", f)
	}
}

// What a plan says that it could find is found in about four runs of five. The noise is that of an earlier run, which may be small.
func TestForecastIsWhatItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of runs")
	}
	const runs = 200
	for _, c := range []struct {
		earlier, before, planned, repeats int
		noise                             func(*rand.Rand) float64
		name                              string
	}{
		{1, 3, 1, 5, even(0.05), "5 %"},
		{3, 5, 3, 5, even(0.02), "2 %"},
		{3, 5, 3, 10, even(0.10), "10 %"},
		{36, 3, 36, 3, even(0.08), "8 %"},
		{36, 3, 3, 5, even(0.08), "8 %"},
		{36, 3, 36, 5, uneven, "1.5 to 15 %"},
		{3, 5, 36, 5, uneven, "1.5 to 15 %"},
	} {
		random := rand.New(rand.NewPCG(5, 7))
		trials := func(median, noise float64, n int) []float64 {
			figures := make([]float64, n)
			for i := range figures {
				figures[i] = median * math.Exp(noise*random.NormFloat64())
			}
			return figures
		}
		// verdict is that on the first of the planned comparisons.
		verdict := func(ratio float64, repeats int) (first stats.Comparison) {
			var f Family
			for range c.planned {
				noise := c.noise(random)
				f.Add(pairedRatio(trials(ratio, noise, repeats), trials(1, noise, repeats)), func(stats.Comparison) {})
				ratio = 1
			}
			f.accept[0] = func(c stats.Comparison) { first = c }
			f.Judge()
			return first
		}
		found := 0
		for range runs {
			f := &Forecast{pairs: []int{c.repeats}}
			for range c.earlier {
				noise := c.noise(random)
				f.ofSame = append(f.ofSame, newSample(pairedRatio(trials(1, noise, c.before), trials(1, noise, c.before)).Estimate))
			}
			for range c.planned - 1 {
				f.pairs = append(f.pairs, c.repeats)
			}
			p := f.Power()
			if verdict(1+p.Findable, c.repeats).Verdict == stats.Higher {
				found++
			}
		}
		share := float64(found) / runs
		t.Logf("| %s | %d of %d | %d of %d | %.0f %% |", c.name, c.earlier, c.before, c.planned, c.repeats, 100*share)
		if share < 0.7 {
			t.Errorf("%+v: found in %.0f %%, want about 80", c, 100*share)
		}
	}
}
