package compare

import (
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
		inPart := slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool { return p.Cell.Part != asked.Part })
		var boundaries [][]jump // of all variants, the first variant's jump first
		var samples []sample
		for _, sizes := range asked.Sizes {
			for _, group := range lists.GroupBy(inPart, func(p *matrix.Point) int { return p.Cell.Clients }) {
				jumps := jumpsBetween(group, asked.First, sizes)
				for _, j := range jumps {
					if own, enough := j.without(0, j); enough {
						samples = append(samples, newSample(own))
					}
				}
				boundaries = append(boundaries, jumps)
			}
		}
		noise := estimateNoise(samples) // all trials were measured within an hour
		for _, jumps := range boundaries {
			for _, j := range jumps {
				all = append(all, j.step(jumps[0], noise))
			}
		}
	}
	return all
}

// A jump compares a variant's calls at two sizes.
type jump struct {
	*matrix.Point // of the larger size
	below         *matrix.Point
	fit           *matrix.Fit // median times
}

// jumpsBetween returns the jumps of all variants, starting with the first variant. It returns nil if
// this variant lacks a size.
func jumpsBetween(points []*matrix.Point, first string, sizes scenario.Step) []jump {
	fit := matrix.FitTogether(points, matrix.Median)
	variants := []string{first}
	for _, p := range points {
		variants = lists.AppendNew(variants, p.Cell.Variant)
	}
	var all []jump
	for _, variant := range variants {
		at := func(size scenario.Size) *matrix.Point {
			want := record.Payload{RequestBytes: int(size), ResponseBytes: int(size)}
			return matrix.FindVariant(slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool { return p.Cell.Payload != want }), variant)
		}
		if j := (jump{at(sizes.To), at(sizes.From), fit}); fit.Has(j.Point) && fit.Has(j.below) {
			all = append(all, j)
		} else if variant == first {
			return nil
		}
	}
	return all
}

// step returns the step of a variant. base is the first variant's jump.
func (j jump) step(base jump, noise noisePrior) Step {
	ratio, _ := j.fit.Ratio(j.Point, j.below)
	s := Step{
		Part: j.Cell.Part, Variant: j.Cell.Variant, Workload: j.Cell.Workload, Clients: j.Cell.Clients,
		From: j.below.Cell.RequestBytes, To: j.Cell.RequestBytes, Time: matrix.Figure{Value: ratio.Value},
		Faults: j.extraFaults(), Outcome: j.kindAlone(noise),
	}
	if j.Point != base.Point {
		s.Base, s.Outcome = base.Cell.Variant, j.kindAgainst(base, noise)
	}
	if i := j.interval(0, j, noise); i != nil {
		s.Time = matrix.FigureOf(*i)
	}
	return s
}

// extraFaults returns the additional page faults per call at the larger size, or nil if they were not counted.
func (j jump) extraFaults() *matrix.Figure {
	before := map[int]float64{}
	for _, t := range j.below.MeasuredTrials() {
		before[t.Repeat] = faultsOf(t)
	}
	return matrix.KnownFigure(j.MeasuredTrials(), func(t matrix.Trial) float64 {
		if faults, paired := before[t.Repeat]; paired {
			return faultsOf(t) - faults
		}
		return math.NaN()
	})
}

var faultsOf = matrix.Unspoiled(record.Counts, func(t matrix.Trial) float64 {
	return matrix.PerCall(t, matrix.Number(t.Client.MinorFaults)+matrix.Number(t.Server.MinorFaults))
})

// without returns the logarithm of j's ratio of times, minus a share of another jump's.
func (j jump) without(share float64, of jump) (stats.Contrast, bool) {
	return j.fit.Logs([]*matrix.Point{j.Point, j.below, of.Point, of.below}, []float64{1, -1, -share, share})
}

// interval returns the interval of j's ratio after removing a share of another jump, or nil if there
// are too few repeats.
func (j jump) interval(share float64, of jump, noise noisePrior) *stats.Interval {
	e, enough := j.without(share, of)
	if !enough {
		return nil
	}
	return new(noise.judge(newSample(e), j.Level).Ratio)
}

// kindAlone returns the kind of a part's first variant.
func (j jump) kindAlone(noise noisePrior) StepKind {
	switch i := j.interval(0, j, noise); {
	case i != nil && i.Low > leastStepRatio:
		return HasStep
	case i != nil && i.High < leastStepRatio:
		return NoStep
	}
	return StepUndecided
}

// kindAgainst returns the kind of a later variant. The step is gone if less than half of the first
// variant's step, base, is left.
func (j jump) kindAgainst(base jump, noise noisePrior) StepKind {
	if base.kindAlone(noise) != HasStep {
		more, own := j.interval(1, base, noise), j.kindAlone(noise)
		switch {
		case own != HasStep:
			return own
		case more != nil && more.Low > 1:
			return StepAppears
		}
		return StepUndecided
	}
	switch i := j.interval(0.5, base, noise); {
	case i != nil && i.High < 1:
		return StepGone
	case i != nil && i.Low > 1:
		return StepStays
	}
	return StepUndecided
}
