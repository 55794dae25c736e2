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
	"wirelab.dev/internal/judge/check"
)

// Power holds the smallest differences of a metric that a run would find in four of five cases.
// They depend on its number of repeats and on the noise between trials.
type Power struct {
	Metric      string  `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`
	Comparisons int     `json:"comparisons"`                              // number of comparisons with enough pairs for a verdict
	Pairs       int     `json:"pairs"`                                    // number of pairs of trials in the median comparison; trials without a partner count for less than one
	Unit        string  `json:"unit" jsonschema:"enum=block,enum=repeat"` // block if the trials took turns, else repeat
	Noise       float64 `json:"noise"`                                    // standard deviation between trials of one cell: 0.07 for 7 %
	Findable    float64 `json:"findable"`                                 // smallest difference of two variants that is found: 0.2 for 20 % more

	Difference         float64 `json:"difference"`                                 // a smaller difference, which pairs_for_difference is about: 0.1 for 10 % more; 0 if the findable one is below 1 %
	PairsForDifference *int    `json:"pairs_for_difference" jsonschema:"nullable"` // approximate pairs that find this difference; null if more than 10,000
}

// smallerDifferences lists the differences that Power.Difference may be, descending.
var smallerDifferences = []float64{0.1, 0.05, 0.03, 0.02, 0.01}

// smallerDifference returns the largest of them that is at most half of what is found, else the least
// one below it, or 0.
func smallerDifference(findable float64) float64 {
	for _, difference := range smallerDifferences {
		if 2*difference <= findable || difference == slices.Min(smallerDifferences) && difference < findable {
			return difference
		}
	}
	return 0
}

// Power returns the power of the family's comparisons, or nil if it has none.
func (f *Family) Power() *Power {
	if len(f.samples) == 0 {
		return nil
	}
	pairs, variances := make([]int, len(f.samples)), make([]float64, len(f.samples))
	usual := estimateNoise(f.samples)
	d := design{comparisons: len(f.samples), lent: usual.degrees, inBlocks: true}
	for i, s := range f.samples {
		pairs[i] = int(math.Round(s.pairs))
		variances[i], _ = usual.pairVariance(s)
		d.level, d.inBlocks = matrix.Stricter(d.level, f.ratios[i].Level), d.inBlocks && f.ratios[i].InBlocks
	}
	slices.Sort(pairs)
	slices.Sort(variances)
	d.variances = variances[len(variances)/2 : len(variances)/2+1]
	return d.power(max(2, pairs[len(pairs)/2]))
}

// A design describes the comparisons of a run, for computing their power.
type design struct {
	level       matrix.Level
	comparisons int
	variances   []float64 // possible variances of the logarithm of one pair's ratio, equally likely
	lent        float64   // degrees of freedom that a comparison gains from the other comparisons
	inBlocks    bool
}

func (d design) power(pairs int) *Power {
	p := &Power{
		Comparisons: d.comparisons, Pairs: pairs, Unit: map[bool]string{true: "block", false: "repeat"}[d.inBlocks],
		Noise: math.Sqrt(d.variances[len(d.variances)/2] / 2), Findable: math.Expm1(d.smallestFindable(pairs)),
	}
	if p.Difference = smallerDifference(p.Findable); p.Difference > 0 {
		p.PairsForDifference = d.pairsFor(math.Log1p(p.Difference))
	}
	return p
}

// wantedPower is the wanted probability of finding a difference that exists.
const wantedPower = 0.8

// findProbability returns the probability of finding a ratio, given by its logarithm. It applies
// Holm's strictest correction.
func (d design) findProbability(logRatio float64, pairs int) float64 {
	own := float64(pairs - 1)
	t := stats.NewStudent(max(own, min(d.lent+own, own*float64(d.comparisons))))
	significant := t.Quantile(1 - (1-d.level.Confidence())/2/float64(d.comparisons))
	sum := 0.0
	for _, variance := range d.variances {
		sum += t.CDF(logRatio/math.Sqrt(variance/float64(pairs)) - significant)
	}
	return sum / float64(len(d.variances))
}

// smallestFindable returns the logarithm of the smallest ratio that is found with wantedPower.
func (d design) smallestFindable(pairs int) float64 {
	const step, most = 1e-5, 1 << 24
	return step * float64(sort.Search(most, func(i int) bool { return d.findProbability(step*float64(i), pairs) >= wantedPower }))
}

// pairsFor returns the smallest number of pairs that finds a ratio, or nil if 10,000 are too few.
func (d design) pairsFor(logRatio float64) *int {
	const most = 10_000
	pairs := matrix.LeastTrials + sort.Search(most-matrix.LeastTrials+1, func(i int) bool {
		return d.findProbability(logRatio, matrix.LeastTrials+i) >= wantedPower
	})
	if pairs > most {
		return nil
	}
	return &pairs
}

// A Forecast estimates which differences a planned run can find, from the noise of earlier runs.
type Forecast struct {
	metric   string
	level    matrix.Level
	inBlocks bool
	planned  map[record.Cell]int // repeats of each cell
	pairs    []int               // number of pairs of each comparison, sorted

	ofSame, ofOthers []sample // comparisons of earlier runs: of the plan's cells, and of other cells
}

// A Planned describes the trials of a run that is to come.
type Planned struct {
	Cells    []record.Cell // each as often as the plan measures it
	InBlocks bool          // the trials take turns in blocks
	Until    *record.Until // nil without a goal
}

// NewForecast returns a forecast for a plan, or nil if the plan compares nothing. If the plan has a
// goal, the forecast is for the last look, or for the first look if the time ends the run. The forecast is about the
// mean, or about throughput if the mean is not compared.
func NewForecast(plan Planned) *Forecast {
	f := &Forecast{planned: map[record.Cell]int{}, inBlocks: plan.InBlocks}
	if u := plan.Until; u != nil {
		last := len(u.Looks) - 1
		if u.TimeNS > 0 { // only the first look is sure to come
			last = 0
		}
		f.level = matrix.Level(u.Looks[last].Level)
	}
	var points []*matrix.Point
	for _, cell := range plan.Cells {
		if f.planned[cell]++; f.planned[cell] == 1 {
			points = append(points, &matrix.Point{Cell: cell})
		}
	}
	for _, f.metric = range []string{matrix.Mean, matrix.Throughput} {
		for a, b := range comparablePairs(lists.GroupBy(points, (*matrix.Point).Conditions), f.metric) {
			f.pairs = append(f.pairs, min(f.planned[a.Cell], f.planned[b.Cell]))
		}
		if len(f.pairs) > 0 {
			slices.Sort(f.pairs)
			return f
		}
	}
	return nil
}

// AddRun adds the comparisons of an earlier run that have enough trials.
func (f *Forecast) AddRun(m *record.Manifest, records []*record.Record) {
	run, err := study.ReadRun(m, records, check.Limits{})
	if err != nil {
		return // an unreadable run adds nothing
	}
	fit := matrix.NewFit(run.Points, f.metric)
	for a, b := range comparablePairs(matrix.ComparableGroups(run.Points), f.metric) {
		ratio, known := fit.Ratio(a, b)
		switch {
		case !known || !ratio.Enough:
		case f.planned[a.Cell] > 0 && f.planned[b.Cell] > 0:
			f.ofSame = append(f.ofSame, newSample(ratio.Estimate))
		default:
			f.ofOthers = append(f.ofOthers, newSample(ratio.Estimate))
		}
	}
}

// HasEnoughRuns reports whether the forecast has enough comparisons of the plan's own cells.
func (f *Forecast) HasEnoughRuns() bool { return len(f.ofSame) >= leastFamily }

// NeedsOtherRuns reports whether comparisons of other cells would improve the forecast.
func (f *Forecast) NeedsOtherRuns() bool {
	return len(f.ofSame) == 0 && len(f.ofOthers) < leastFamily
}

// Power returns the plan's power, or nil if no earlier run shows the noise.
func (f *Forecast) Power() *Power {
	made := f.ofSame
	if len(made) == 0 {
		made = f.ofOthers
	}
	if len(made) == 0 {
		return nil
	}
	d := designFromNoise(made, len(f.pairs))
	d.level, d.inBlocks = f.level, f.inBlocks
	p := d.power(max(matrix.LeastTrials, f.Repeats()))
	p.Metric = f.metric
	return p
}

// Repeats returns the number of repeats of the median comparison.
func (f *Forecast) Repeats() int { return f.pairs[len(f.pairs)/2] }

// defaultLentDegrees is design.lent if there are few comparisons. With 2, four of five findable differences
// are found if noise differs little, and seven of ten if it differs tenfold.
const defaultLentDegrees = 2

// designFromNoise returns a design with the noise of earlier comparisons. Its variances include the
// uncertainty of each earlier variance.
func designFromNoise(made []sample, comparisons int) design {
	const points = 8 // number of variances for each earlier comparison
	usual := estimateNoise(made)
	d := design{comparisons: comparisons}
	for _, s := range made {
		variance, freedom := usual.pairVariance(s)
		chance := distuv.ChiSquared{K: freedom}
		for i := range points {
			d.variances = append(d.variances, variance*freedom/chance.Quantile((float64(i)+0.5)/points))
		}
	}
	slices.Sort(d.variances)
	switch {
	case comparisons < leastFamily:
	case len(made) < leastFamily: // too few to show how much variances differ
		d.lent = defaultLentDegrees
	default:
		d.lent = usual.degrees
	}
	return d
}
