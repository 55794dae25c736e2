package compare

import (
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// A Forecast estimates what the comparisons of a plan can find, at the noise of earlier runs
// on the same machine.
type Forecast struct {
	metric  string
	level   matrix.Level
	planned map[record.Cell]int // repeats
	pairs   []int               // of each comparison, sorted

	ofSame, ofOthers Noise
}

// A Noise holds what earlier runs say of a machine's noise.
type Noise struct {
	OfSame bool     // of the plan's own cells, under the same load
	Runs   []string // their names

	made []sample // comparisons
}

func (n *Noise) add(run string, made []sample) {
	if len(made) > 0 {
		n.Runs, n.made = append(n.Runs, run), append(n.made, made...)
	}
}

// NewForecast takes the cells of a plan, each as often as it is measured, and what the plan is
// repeated for: the forecast is for the last look. It is about the mean, or about the
// throughput if only that is compared. NewForecast returns nil if nothing is compared.
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

// Learn takes in an earlier run, if it has comparisons of three pairs or more.
func (f *Forecast) Learn(name string, m *record.Manifest, records []*record.Record) {
	s, err := study.Read(m)
	if err != nil {
		return
	}
	measured, _ := study.SplitProfiled(records)
	points, err := study.Gather(s, measured)
	if err != nil {
		return // a run that cannot be read tells nothing
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

// KnowsEnough reports whether further runs with cells of the plan would change little.
func (f *Forecast) KnowsEnough() bool { return len(f.ofSame.made) >= leastFamily }

// NeedsOthers reports whether runs with no such cells would help.
func (f *Forecast) NeedsOthers() bool {
	return len(f.ofSame.made) == 0 && len(f.ofOthers.made) < leastFamily
}

// Power returns what the plan can find, and at which noise. It returns nil if no earlier run
// helps.
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

// unknownLent is the number of degrees of freedom that comparisons lend each other if their
// noise differs by a factor of ten.
const unknownLent = 4

// designAfter returns a design of comparisons. Each has the noise of one of the earlier
// comparisons, as uncertain as their pairs leave it.
func designAfter(made []sample, comparisons int) design {
	const points = 8 // of each one's distribution
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
	case len(made) < leastFamily: // how far single ones stray from it is not known
		d.lent = unknownLent
	default:
		d.lent = usual.degrees
	}
	return d
}
