package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// uslLeastLoads is the least number of loads for a fit of three parameters.
const uslLeastLoads = 5

// uslDraws is the number of resamples. Each resample needs its own fit.
const uslDraws = 200

// Scalability is the universal scalability law (Gunther, 1993) fitted to a curve of throughput X
// over the load N:
//
//	X(N) = λN / (1 + σ(N−1) + κN(N−1))
//
// σ is the share of the work that cannot run in parallel (contention). κ is the cost of keeping
// each pair of workers consistent (coherency). Ideal is λ, the throughput at N = 1.
type Scalability struct {
	Ideal      Interval `json:"ideal"`
	Contention Interval `json:"contention"` // σ
	Coherency  Interval `json:"coherency"`  // κ
	// Peak is the load beyond which throughput falls, √((1−σ)/κ). It is absent if it exceeds twice
	// the largest measured load.
	Peak *Interval `json:"peak,omitempty"`
	// Misfit is the mean error of the fit, as a share of the throughput.
	Misfit float64 `json:"misfit"`
}

// At returns the throughput that the law predicts for a load.
func (s Scalability) At(load float64) float64 {
	return usl{s.Ideal.Estimate, s.Contention.Estimate, s.Coherency.Estimate}.at(load)
}

type usl struct{ ideal, contention, coherency float64 }

func (u usl) at(n float64) float64 {
	return u.ideal * n / (1 + u.contention*(n-1) + u.coherency*n*(n-1))
}

func (u usl) peak() float64 {
	if u.coherency <= 0 || u.contention >= 1 {
		return math.Inf(1)
	}
	return math.Sqrt((1 - u.contention) / u.coherency)
}

// FitScalability fits the law to a curve of throughput over load, by least squares of the
// logarithms, so that each load has the same weight. The intervals come from resampling each
// load's trials. If a load has only one trial, the results hold estimates without intervals, with
// a confidence of 0.
func FitScalability(curve Curve, how Resampling) (Scalability, error) {
	if err := curve.check(); err != nil {
		return Scalability{}, fmt.Errorf("stats: scalability: %w", err)
	}
	if n := len(curve.X); n < uslLeastLoads {
		return Scalability{}, fmt.Errorf("stats: scalability: found %d loads, need at least %d: %w", n, uslLeastLoads, ErrTooFew)
	}
	loads, means := curve.X, curve.means()
	for i, load := range loads {
		if !(load >= 1) || !(means[i] > 0) {
			return Scalability{}, fmt.Errorf("stats: scalability: throughput %v at load %v: %w", means[i], load, ErrUnusable)
		}
	}
	alone := means[0] / loads[0]
	// Try several starts, because the valley of the error is long and curved.
	best, misfit, err := fitUSL(loads, means, usl{alone, 0.3, 1e-4}, usl{alone, 0.03, 1e-3}, usl{alone, 0.003, 1e-6})
	if err != nil {
		return Scalability{}, err
	}
	s := Scalability{Misfit: misfit}
	draws := resampleUSL(curve, best, how.newRandom())
	interval := func(of func(usl) float64) Interval {
		values := make([]float64, 0, len(draws))
		for _, d := range draws {
			if v := of(d); !math.IsInf(v, 0) && !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			return Interval{Estimate: of(best), Low: of(best), High: of(best)}
		}
		return how.interval(of(best), values)
	}
	s.Ideal = interval(func(u usl) float64 { return u.ideal })
	s.Contention = interval(func(u usl) float64 { return u.contention })
	s.Coherency = interval(func(u usl) float64 { return u.coherency })
	if best.peak() <= 2*slices.Max(loads) {
		s.Peak = new(interval(usl.peak))
	}
	return s, nil
}

func resampleUSL(curve Curve, near usl, random *rand.Rand) []usl {
	if curve.fewestTrials() < 2 {
		return nil
	}
	var draws []usl
	drawn := make([]float64, len(curve.X))
	for range uslDraws {
		for i, trials := range curve.Y {
			drawn[i] = resampledMean(trials, random)
		}
		if u, _, err := fitUSL(curve.X, drawn, near); err == nil {
			draws = append(draws, u)
		}
	}
	return draws
}

// fitUSL searches from each of the starts. It searches over the logarithms of the parameters, so
// that the parameters stay positive.
func fitUSL(loads, throughputs []float64, starts ...usl) (best usl, misfit float64, err error) {
	of := func(x []float64) usl { return usl{math.Exp(x[0]), math.Exp(x[1]), math.Exp(x[2])} }
	squares := func(x []float64) float64 {
		u, sum := of(x), 0.0
		for i, n := range loads {
			off := math.Log(throughputs[i] / u.at(n))
			sum += off * off
		}
		return sum
	}
	least := math.Inf(1)
	for _, start := range starts {
		begin := []float64{math.Log(start.ideal), math.Log(start.contention), math.Log(start.coherency)}
		found, failed := optimize.Minimize(optimize.Problem{Func: squares}, begin, nil, &optimize.NelderMead{})
		if found == nil || failed != nil && found.F >= least {
			err = failed
			continue
		}
		if found.F < least {
			least, best = found.F, of(found.X)
		}
	}
	if math.IsInf(least, 1) {
		return usl{}, 0, fmt.Errorf("stats: scalability: no fit: %w", err)
	}
	return best, math.Sqrt(least / float64(len(loads))), nil
}
