package compare

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// Power holds the differences of a metric that a run's repeats find in four of five comparisons,
// at the noise of its trials.
type Power struct {
	Metric      string  `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`
	Comparisons int     `json:"comparisons"` // comparisons with enough pairs for a verdict
	Pairs       int     `json:"pairs"`       // pairs of the median comparison
	Noise       float64 `json:"noise"`       // standard deviation of trials of one cell: 0.07 for 7 %
	Findable    float64 `json:"findable"`    // smallest difference of two variants that is found: 0.2 for 20 % more

	Difference          float64 `json:"difference"`                                  // the difference for pairs_for_difference: 0.1 for 10 % more
	PairsForDifference  *int    `json:"pairs_for_difference" jsonschema:"nullable"`  // approximate pairs that find this difference; null if more than 10,000
	PairsForEquivalence *int    `json:"pairs_for_equivalence" jsonschema:"nullable"` // approximate pairs that prove two equal variants equivalent; null if more than 10,000
}

// tenth is the difference whose pairs Power returns.
const tenth = 0.1

// Power returns nil if nothing was compared.
func (f *Family) Power() *Power {
	if len(f.samples) == 0 {
		return nil
	}
	pairs := make([]int, len(f.samples))
	for i, s := range f.samples {
		pairs[i] = int(s.pairs)
	}
	slices.Sort(pairs)
	usual := estimateNoise(f.samples)
	variances := make([]float64, len(f.samples))
	for i, s := range f.samples {
		variances[i] = varianceOf(usual.estimate(s))
	}
	slices.Sort(variances)
	d := design{level: f.level, comparisons: len(f.samples), variances: variances[len(variances)/2 : len(variances)/2+1], lent: usual.degrees}
	return d.power(pairs[len(pairs)/2])
}

// A design describes comparisons that are judged together.
type design struct {
	level       matrix.Level
	comparisons int
	variances   []float64 // possible variances of the logarithm of one pair's ratio, equally likely
	lent        float64   // degrees of freedom that a comparison gets from the others
}

func (d design) power(pairs int) *Power {
	return &Power{
		Comparisons: d.comparisons, Pairs: pairs,
		Noise: math.Sqrt(d.variances[len(d.variances)/2] / 2), Findable: math.Expm1(d.findable(pairs)), Difference: tenth,
		PairsForDifference:  leastPairs(func(pairs int) bool { return d.finds(math.Log1p(tenth), pairs) >= power }),
		PairsForEquivalence: leastPairs(func(pairs int) bool { return d.findsEquivalence(pairs) >= power }),
	}
}

// power is the share of comparisons that must find an existing difference.
const power = 0.8

// student returns the distribution that judges a comparison with this number of pairs.
func (d design) student(pairs int) stats.Student {
	own := float64(pairs - 1)
	freedom := max(own, min(d.lent+own, own*float64(d.comparisons)))
	return stats.NewStudent(freedom)
}

// share returns the mean of a probability over the standard errors that these pairs may have.
func (d design) share(pairs int, of func(standardError float64) float64) float64 {
	sum := 0.0
	for _, variance := range d.variances {
		sum += of(math.Sqrt(variance / float64(pairs)))
	}
	return sum / float64(len(d.variances))
}

// finds returns the probability of finding a ratio, given by its logarithm: it lies beyond the
// margin after Holm's first, strictest correction.
func (d design) finds(logRatio float64, pairs int) float64 {
	t := d.student(pairs)
	significant := t.Quantile(1 - (1-d.level.Confidence())/2/float64(d.comparisons))
	return d.share(pairs, func(standardError float64) float64 {
		return t.CDF(logRatio/standardError - max(significant, math.Log1p(matrix.Margin)/standardError))
	})
}

// findable returns the logarithm of the smallest ratio that is found.
func (d design) findable(pairs int) float64 {
	low, high := 0.0, 1.0
	for d.finds(high, pairs) < power {
		low, high = high, 2*high
	}
	for high-low > 1e-4*high {
		if middle := (low + high) / 2; d.finds(middle, pairs) < power {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// findsEquivalence returns the probability that the interval of two equal variants lies within the
// margin. The error of the estimate uses part of the margin.
func (d design) findsEquivalence(pairs int) float64 {
	half := d.student(pairs).Quantile((1 + d.level.Confidence()) / 2)
	return d.share(pairs, func(standardError float64) float64 {
		return max(0, 2*distuv.UnitNormal.CDF(math.Log1p(matrix.Margin)/standardError-half)-1)
	})
}

// leastPairs returns the smallest number of pairs that is enough, or nil if none is.
func leastPairs(enough func(pairs int) bool) *int {
	const most = 10_000
	pairs := matrix.LeastTrials + sort.Search(most-matrix.LeastTrials+1, func(i int) bool { return enough(matrix.LeastTrials + i) })
	if pairs > most {
		return nil
	}
	return &pairs
}

// A Forecast estimates what a plan's comparisons can find, at the noise of earlier runs.
type Forecast struct {
	metric  string
	level   matrix.Level
	planned map[record.Cell]int // repeats of each cell
	pairs   []int               // of each comparison, sorted

	ofSame, ofOthers Noise
}

// A Noise describes the noise of a machine in earlier runs.
type Noise struct {
	OfSame bool     // the runs measured the plan's own cells under the same load
	Runs   []string // their names

	made []sample // comparisons of these runs
}

func (n *Noise) add(run string, made []sample) {
	if len(made) > 0 {
		n.Runs, n.made = append(n.Runs, run), append(n.made, made...)
	}
}

// NewForecast takes a plan's cells, each as often as it is measured, and the goal until which the
// plan repeats: the forecast is for the last look. It is about the mean, or about throughput if
// only that is compared. It returns nil if nothing is compared.
func NewForecast(cells []record.Cell, until *record.Until) *Forecast {
	f := &Forecast{planned: map[record.Cell]int{}}
	if until != nil {
		f.level = matrix.Level(until.Looks[len(until.Looks)-1].Level)
	}
	var points []*matrix.Point
	for _, cell := range cells {
		if f.planned[cell]++; f.planned[cell] == 1 {
			points = append(points, &matrix.Point{Cell: cell})
		}
	}
	for _, f.metric = range []string{matrix.Mean, matrix.Throughput} {
		for a, b := range pairsAt(lists.GroupBy(points, (*matrix.Point).Conditions), f.metric) {
			f.pairs = append(f.pairs, min(f.planned[a.Cell], f.planned[b.Cell]))
		}
		if len(f.pairs) > 0 {
			slices.Sort(f.pairs)
			return f
		}
	}
	return nil
}

// Learn adds an earlier run, if it has comparisons of three pairs or more.
func (f *Forecast) Learn(name string, m *record.Manifest, records []*record.Record) {
	s, err := study.Read(m)
	if err != nil {
		return
	}
	measured, _ := study.SplitProfiled(records)
	points, err := study.Gather(s, measured)
	if err != nil {
		return // an unreadable run adds nothing
	}
	var same, others Family
	for a, b := range pairsAt(matrix.Rivals(points), f.metric) {
		into := &others
		if f.planned[a.Cell] > 0 && f.planned[b.Cell] > 0 {
			into = &same
		}
		into.add(a, b, matrix.Metrics[f.metric], nil)
	}
	f.ofSame.add(name, same.samples)
	f.ofOthers.add(name, others.samples)
}

// KnowsEnough reports whether more runs with cells of the plan would change little.
func (f *Forecast) KnowsEnough() bool { return len(f.ofSame.made) >= leastFamily }

// NeedsOthers reports whether runs without cells of the plan would help.
func (f *Forecast) NeedsOthers() bool {
	return len(f.ofSame.made) == 0 && len(f.ofOthers.made) < leastFamily
}

// Power returns the power of the plan, and the noise that it was computed from. It returns nil if
// no earlier run helps.
func (f *Forecast) Power() (*Power, Noise) {
	noise := f.ofSame
	if noise.OfSame = len(noise.made) > 0; !noise.OfSame {
		noise = f.ofOthers
	}
	if len(noise.made) == 0 {
		return nil, noise
	}
	d := designAfter(noise.made, len(f.pairs))
	d.level = f.level
	p := d.power(max(matrix.LeastTrials, f.Repeats()))
	p.Metric = f.metric
	return p, noise
}

// Repeats returns the repeats of the median comparison.
func (f *Forecast) Repeats() int { return f.pairs[len(f.pairs)/2] }

// unknownLent is the degrees of freedom that comparisons share if their noise differs tenfold.
const unknownLent = 4

// designAfter returns a design whose comparisons have the noise of the earlier ones, with the
// uncertainty of their number of pairs.
func designAfter(made []sample, comparisons int) design {
	const points = 8 // per distribution of a variance
	usual := estimateNoise(made)
	d := design{comparisons: comparisons}
	for _, s := range made {
		e := usual.estimate(s)
		chance := distuv.ChiSquared{K: e.Freedom}
		for i := range points {
			d.variances = append(d.variances, varianceOf(e)*e.Freedom/chance.Quantile((float64(i)+0.5)/points))
		}
	}
	slices.Sort(d.variances)
	switch {
	case comparisons < leastFamily:
	case len(made) < leastFamily: // the spread of variances is unknown
		d.lent = unknownLent
	default:
		d.lent = usual.degrees
	}
	return d
}
