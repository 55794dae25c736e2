package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// A Step compares a variant's time per call at two message sizes that differ by a few bytes.
type Step struct {
	Part     string         `json:"part"`
	Variant  string         `json:"variant"`
	Workload string         `json:"workload"`
	Clients  int            `json:"clients"`
	From     int            `json:"from_bytes"`
	To       int            `json:"to_bytes"`
	Time     matrix.Figure  `json:"time_ratio"` // P50 at the larger size divided by P50 at the smaller, over the repeats
	Faults   *matrix.Figure `json:"faults"`     // page faults per call of client and server at the larger size, minus those at the smaller size; null if not counted
	Outcome  StepKind       `json:"outcome" jsonschema:"enum=step,enum=none,enum=stays,enum=gone,enum=appears,enum=undecided"`
	Base     string         `json:"base,omitempty"` // the part's first variant, with which this step's variant is compared; absent for the first variant
}

// A StepKind tells whether a variant's time jumps between two sizes.
type StepKind string

// The kinds. A part's first variant has a step or none. In a later variant, the first variant's
// step stays or is gone. If the first variant has none, a step may appear.
const (
	HasStep       StepKind = "step"
	NoStep        StepKind = "none"
	StepStays     StepKind = "stays"
	StepGone      StepKind = "gone"
	StepAppears   StepKind = "appears"
	StepUndecided StepKind = "undecided"
)

// leastStepRatio is the ratio of times from which a jump counts as a step.
const leastStepRatio = 1.1

// FindSteps looks for steps at the sizes that the scenario names.
func FindSteps(s *study.Study, points []*matrix.Point) []Step {
	var all []Step
	for _, asked := range s.Steps {
		var found []sizeBoundary
		var samples []sample
		for _, sizes := range asked.Sizes {
			for _, group := range lists.GroupBy(slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool { return p.Cell.Part != asked.Part }),
				func(p *matrix.Point) int { return p.Cell.Clients }) {
				f := newBoundary(group, asked.First, sizes)
				for _, j := range f.all {
					if own, enough := j.sample(0, jump{}); enough {
						samples = append(samples, own)
					}
				}
				found = append(found, f)
			}
		}
		// All trials were measured within an hour, so they share one estimate of the noise.
		noise := estimateNoise(samples)
		for _, f := range found {
			all = append(all, f.steps(noise)...)
		}
	}
	return all
}

// A sizeBoundary holds every variant's jump between two sizes, starting with the first variant.
type sizeBoundary struct {
	sizes scenario.Step
	all   []jump
}

func newBoundary(points []*matrix.Point, first string, sizes scenario.Step) sizeBoundary {
	f := sizeBoundary{sizes: sizes}
	variants := []string{first}
	for _, p := range points {
		variants = lists.AppendNew(variants, p.Cell.Variant)
	}
	for _, variant := range variants {
		if own := newJump(points, variant, sizes); len(own.logs) > 0 || variant == first {
			f.all = append(f.all, own)
		}
	}
	return f
}

func (f sizeBoundary) steps(noise noisePrior) []Step {
	base := f.all[0]
	if len(base.logs) == 0 {
		return nil
	}
	var all []Step
	for i, own := range f.all {
		step := Step{
			Part: own.Cell.Part, Variant: own.Cell.Variant, Workload: own.Cell.Workload, Clients: own.Cell.Clients,
			From: int(f.sizes.From), To: int(f.sizes.To), Time: own.timeRatio(noise), Faults: own.extraFaults(),
		}
		if i == 0 {
			step.Outcome = own.kindAlone(noise)
		} else {
			step.Base, step.Outcome = base.Cell.Variant, own.kindAgainst(base, noise)
		}
		all = append(all, step)
	}
	return all
}

// A jump holds how much longer a variant's calls take at the larger of two sizes.
type jump struct {
	*matrix.Point                 // point of the larger size
	logs          map[int]float64 // logarithm of the ratio of times, by repeat
	faults        []float64       // additional page faults per call
}

func newJump(points []*matrix.Point, variant string, sizes scenario.Step) jump {
	at := func(size scenario.Size) *matrix.Point {
		want := record.Payload{RequestBytes: int(size), ResponseBytes: int(size)}
		sized := slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool { return p.Cell.Payload != want })
		return cmp.Or(matrix.FindVariant(sized, variant), &matrix.Point{})
	}
	below, above := at(sizes.From), at(sizes.To)
	j := jump{Point: above, logs: map[int]float64{}}
	for _, b := range above.MeasuredTrials() {
		for _, a := range below.MeasuredTrials() {
			if a.Repeat != b.Repeat {
				continue
			}
			if ratio := matrix.Metrics[matrix.Median](b) / matrix.Metrics[matrix.Median](a); ratio > 0 {
				j.logs[a.Repeat] = math.Log(ratio)
			}
			if more := faultsOf(b) - faultsOf(a); !math.IsNaN(more) {
				j.faults = append(j.faults, more)
			}
		}
	}
	return j
}

var faultsOf = matrix.Unspoiled(record.Counts, func(t matrix.Trial) float64 {
	return matrix.PerCall(t, matrix.Number(t.Client.MinorFaults)+matrix.Number(t.Server.MinorFaults))
})

// sample returns j's logarithms minus a share of the logarithms of the jump in of.
func (j jump) sample(share float64, of jump) (_ sample, enough bool) {
	var values []float64
	for _, repeat := range slices.Sorted(maps.Keys(j.logs)) {
		other, both := of.logs[repeat]
		if share == 0 || both {
			values = append(values, j.logs[repeat]-share*other)
		}
	}
	if len(values) < matrix.LeastTrials {
		return sample{}, false
	}
	return sampleOf(values), true
}

// interval returns the interval of j's ratio after removing a share of the jump in of.
func (j jump) interval(share float64, of jump, noise noisePrior) (stats.Interval, bool) {
	s, enough := j.sample(share, of)
	if !enough {
		return stats.Interval{}, false
	}
	return noise.judge(s, j.Level).Ratio, true
}

func (j jump) timeRatio(noise noisePrior) matrix.Figure {
	if i, enough := j.interval(0, jump{}, noise); enough {
		return matrix.FigureOf(i)
	}
	return matrix.Figure{Value: math.Exp(mean(slices.Collect(maps.Values(j.logs))))}
}

func (j jump) extraFaults() *matrix.Figure {
	if len(j.faults) == 0 {
		return nil
	}
	if i, err := stats.MeanInterval(j.faults, j.Level.Confidence()); err == nil {
		return new(matrix.FigureOf(matrix.WithRunConfidence(i)))
	}
	return &matrix.Figure{Value: stats.Median(j.faults)}
}

// kindAlone returns the kind of a part's first variant.
func (j jump) kindAlone(noise noisePrior) StepKind {
	i, enough := j.interval(0, jump{}, noise)
	switch {
	case !enough:
		return StepUndecided
	case i.Low > leastStepRatio:
		return HasStep
	case i.High < leastStepRatio:
		return NoStep
	}
	return StepUndecided
}

// kindAgainst returns the kind of a later variant. The step is gone if less than half of the first
// variant's step, base, is left.
func (j jump) kindAgainst(base jump, noise noisePrior) StepKind {
	if base.kindAlone(noise) != HasStep {
		more, enough := j.interval(1, base, noise)
		if own := j.kindAlone(noise); own != HasStep || (enough && more.Low > 1) {
			return map[StepKind]StepKind{HasStep: StepAppears, NoStep: NoStep, StepUndecided: StepUndecided}[own]
		}
		return StepUndecided
	}
	i, enough := j.interval(0.5, base, noise)
	switch {
	case enough && i.High < 1:
		return StepGone
	case enough && i.Low > 1:
		return StepStays
	}
	return StepUndecided
}
