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

// A Step compares the time of a call at one size with a slightly larger one, for one variant of a
// part that asks for it.
type Step struct {
	Part     string         `json:"part"`
	Variant  string         `json:"variant"`
	Workload string         `json:"workload"`
	Clients  int            `json:"clients"`
	From     int            `json:"from_bytes"`
	To       int            `json:"to_bytes"`
	Time     matrix.Figure  `json:"time_ratio"` // P50 at the larger size divided by P50 at the smaller, over the repeats
	Faults   *matrix.Figure `json:"faults"`     // additional page faults per call of both ends at the larger size; null if not counted
	Outcome  StepKind       `json:"outcome" jsonschema:"enum=step,enum=none,enum=stays,enum=gone,enum=appears,enum=undecided"`
	Base     string         `json:"base,omitempty"` // the part's first variant, to which the kind is relative; absent for the first itself
}

// A StepKind is the outcome of a step for a variant.
type StepKind string

// The kinds. A part's first variant has a step or none. In the others this step stays or is gone,
// or one appears if the first variant has none.
const (
	HasStep       StepKind = "step"
	NoStep        StepKind = "none"
	StepStays     StepKind = "stays"
	StepGone      StepKind = "gone"
	StepAppears   StepKind = "appears"
	StepUndecided StepKind = "undecided"
)

// leastStep is the ratio of times from which a change of size by a few bytes counts as a step.
const leastStep = 1.1

// FindSteps judges the steps that parts of the scenario ask about.
func FindSteps(s *study.Study, points []*matrix.Point) []Step {
	var all []Step
	for _, asked := range s.Steps {
		var found []boundary
		var samples []sample
		for _, sizes := range asked.Sizes {
			for _, group := range lists.GroupBy(slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool { return p.Cell.Part != asked.Part }),
				func(p *matrix.Point) int { return p.Cell.Clients }) {
				f := jumpsOf(group, asked.First, sizes)
				for _, j := range f.all {
					if own, enough := j.sample(0, jump{}); enough {
						samples = append(samples, own)
					}
				}
				found = append(found, f)
			}
		}
		// All were measured within an hour, so together they estimate their noise.
		noise := estimateNoise(samples)
		for _, f := range found {
			all = append(all, f.steps(noise)...)
		}
	}
	return all
}

// A boundary holds the variants' jumps between two sizes, the first variant's first.
type boundary struct {
	sizes scenario.Step
	all   []jump
}

func jumpsOf(points []*matrix.Point, first string, sizes scenario.Step) boundary {
	f := boundary{sizes: sizes}
	variants := []string{first}
	for _, p := range points {
		variants = lists.AppendNew(variants, p.Cell.Variant)
	}
	for _, variant := range variants {
		if own := jumps(points, variant, sizes); len(own.logs) > 0 || variant == first {
			f.all = append(f.all, own)
		}
	}
	return f
}

func (f boundary) steps(noise noise) []Step {
	base := f.all[0]
	if len(base.logs) == 0 {
		return nil
	}
	var all []Step
	for i, own := range f.all {
		step := Step{
			Part: own.Cell.Part, Variant: own.Cell.Variant, Workload: own.Cell.Workload, Clients: own.Cell.Clients,
			From: int(f.sizes.From), To: int(f.sizes.To), Time: own.time(noise), Faults: own.moreFaults(),
		}
		if i == 0 {
			step.Outcome = own.alone(noise)
		} else {
			step.Base, step.Outcome = base.Cell.Variant, own.against(base, noise)
		}
		all = append(all, step)
	}
	return all
}

// A jump holds the logarithms of a variant's time ratios, one per repeat.
type jump struct {
	*matrix.Point // at the larger size
	logs          map[int]float64
	faults        []float64
}

func jumps(points []*matrix.Point, variant string, sizes scenario.Step) jump {
	at := func(size scenario.Size) *matrix.Point {
		want := record.Payload{RequestBytes: int(size), ResponseBytes: int(size)}
		sized := slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool { return p.Cell.Payload != want })
		return cmp.Or(matrix.FindVariant(sized, variant), &matrix.Point{})
	}
	below, above := at(sizes.From), at(sizes.To)
	j := jump{Point: above, logs: map[int]float64{}}
	for _, b := range above.Valid() {
		for _, a := range below.Valid() {
			if ratio := matrix.Metrics[matrix.Median](b) / matrix.Metrics[matrix.Median](a); a.Repeat == b.Repeat && ratio > 0 {
				j.logs[a.Repeat] = math.Log(ratio)
				if more := faultsOf(b) - faultsOf(a); !math.IsNaN(more) {
					j.faults = append(j.faults, more)
				}
			}
		}
	}
	return j
}

// faultsOf returns the page faults per call, of both ends.
func faultsOf(t matrix.Trial) float64 {
	return matrix.PerCall(t, matrix.Number(t.Client.MinorFaults)+matrix.Number(t.Server.MinorFaults))
}

// sample returns the logarithms, minus a share of the logarithms of the jump of, by repeat.
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

// interval returns the interval of the ratio, after removing a share of the jump of.
func (j jump) interval(share float64, of jump, noise noise) (stats.Interval, bool) {
	s, enough := j.sample(share, of)
	if !enough {
		return stats.Interval{}, false
	}
	return noise.judge(s, j.Level).Ratio, true
}

func (j jump) time(noise noise) matrix.Figure {
	if i, enough := j.interval(0, jump{}, noise); enough {
		return matrix.FigureOf(i)
	}
	return matrix.Figure{Value: math.Exp(mean(slices.Collect(maps.Values(j.logs))))}
}

func (j jump) moreFaults() *matrix.Figure {
	if len(j.faults) == 0 {
		return nil
	}
	if i, err := stats.MeanInterval(j.faults, j.Level.Confidence()); err == nil {
		return new(matrix.FigureOf(matrix.Stated(i)))
	}
	return &matrix.Figure{Value: stats.Median(j.faults)}
}

// alone returns the kind for the first variant.
func (j jump) alone(noise noise) StepKind {
	i, enough := j.interval(0, jump{}, noise)
	switch {
	case !enough:
		return StepUndecided
	case i.Low > leastStep:
		return HasStep
	case i.High < leastStep:
		return NoStep
	}
	return StepUndecided
}

// against returns the kind for a later variant: gone if less than half of base's step is left.
func (j jump) against(base jump, noise noise) StepKind {
	if base.alone(noise) != HasStep {
		more, enough := j.interval(1, base, noise)
		if own := j.alone(noise); own != HasStep || (enough && more.Low > 1) {
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
