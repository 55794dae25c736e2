package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// drawnRun describes a run whose means differ by the noise, and by a variant's true factor.
type drawnRun struct {
	sizes, clients, variants, repeats int
	noise                             float64
	factor                            func(variant int, at Point) float64 // nil if all are equal
}

// leads draws a run, judges it as usual, and returns its leads.
func (d drawnRun) leads(t *testing.T, seed uint64) []Lead {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 3))
	s := &analysis.Summary{}
	var points []*matrix.Point
	for size := range d.sizes {
		for n := range d.clients {
			at := Point{record.Payload{RequestBytes: size + 1, ResponseBytes: size + 1}, n + 1}
			for v := range d.variants {
				p := &matrix.Point{Cell: record.Cell{Part: "p", Variant: fmt.Sprint(v), Place: record.Place{Payload: at.Size, Clients: at.Clients}, Load: record.Load{Model: "closed"}}}
				truth := 1e8
				if d.factor != nil {
					truth *= d.factor(v, at)
				}
				var means []float64
				for repeat := range d.repeats {
					r := &record.Record{Repeat: repeat + 1, Cell: p.Cell, WindowNS: 1e9}
					r.Service = latency.Distribution{Count: 1000, Sum: int64(truth * math.Exp(d.noise*random.NormFloat64())), Min: 1, Max: 1e9}
					if err := p.AddTrial(r); err != nil {
						t.Fatal(err)
					}
					means = append(means, float64(r.Service.Sum))
				}
				c := matrix.Cell{Cell: p.Cell, Valid: d.repeats, Trials: d.repeats}
				c.Service.Mean.Value = stat.GeometricMean(means, nil)
				points, s.Cells = append(points, p), append(s.Cells, c)
			}
		}
	}
	s.Comparisons, _ = compare.CompareAll(points)
	return PartsOf(s)[0].Leads(matrix.Mean)
}

// Equal variants get a likely or certain winner in at most 5 % of runs, whatever their number, the
// number of points and the repeats are.
func TestEqualVariantsHaveNoWinner(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of runs")
	}
	const runs = 400 // 1,000 runs give 0 to 5.5 %
	for _, d := range []drawnRun{
		{2, 6, 2, 3, 0.1, nil}, {1, 6, 2, 1, 0.3, nil}, {1, 2, 2, 3, 0.1, nil}, {1, 1, 2, 3, 0.1, nil}, {1, 1, 3, 5, 0.1, nil}, {3, 3, 2, 5, 0.2, nil},
	} {
		found, certain := 0, 0
		for seed := range uint64(runs) {
			for _, l := range d.leads(t, seed) {
				if l.All || l.Grade == Open {
					continue
				}
				found++
				if l.Grade == Certain {
					certain++
				}
				break
			}
		}
		t.Logf("%d points, %d variants, %d repeats: %.1f %% of runs have a winner, %.1f %% a certain one", d.sizes*d.clients, d.variants, d.repeats, 100*float64(found)/runs, 100*float64(certain)/runs)
		// 7.2 % lies two standard errors above 5 %.
		if float64(found)/runs > 0.072 {
			t.Errorf("%+v: %d of %d runs have a winner", d, found, runs)
		}
	}
}

// A variant that is ahead everywhere is found by all points together, and a lead never covers points
// at which another variant is as fast.
func TestPooledEvidenceFindsAWinner(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates hundreds of runs")
	}
	const runs = 100
	share := func(d drawnRun, is func([]Lead) bool) float64 {
		n := 0
		for seed := range uint64(runs) {
			if is(d.leads(t, seed)) {
				n++
			}
		}
		return float64(n) / runs
	}
	ahead := func(v int, _ Point) float64 { return 1 + 0.1*float64(v) }
	d := drawnRun{2, 6, 3, 3, 0.08, ahead}
	graded := share(d, func(all []Lead) bool { return len(all) == 1 && all[0].Grade != Open && all[0].Variants[0] == "0" })
	proven := share(d, func(all []Lead) bool { return all[0].Proven == 12 })
	t.Logf("10 %% ahead at 8 %% of noise: graded in %.0f %%, every point proven in %.0f %%", 100*graded, 100*proven)
	if graded < 0.9 || proven > 0.1 {
		t.Errorf("graded in %.0f %%, every point proven in %.0f %%", 100*graded, 100*proven)
	}
	// The first variant is twice as fast with one of two numbers of clients, and equal with the other.
	d = drawnRun{6, 2, 2, 5, 0.05, func(v int, at Point) float64 {
		if v == 1 && at.Clients == 1 {
			return 2
		}
		return 1
	}}
	covers := share(d, func(all []Lead) bool {
		return slices.ContainsFunc(all, func(l Lead) bool { return l.Grade != Open && !l.All && slices.Contains(l.Clients, 2) })
	})
	found := share(d, func(all []Lead) bool {
		return slices.ContainsFunc(all, func(l Lead) bool { return l.Grade == Certain && slices.Equal(l.Clients, []int{1}) && l.Proven == 6 })
	})
	t.Logf("half of the points are equal: covered in %.1f %%, the other half certain in %.0f %%", 100*covers, 100*found)
	if covers > 0.09 || found < 0.9 {
		t.Errorf("equal points are covered in %.1f %%, the others are certain in %.0f %%", 100*covers, 100*found)
	}
}
