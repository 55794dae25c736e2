package compare

import (
	"cmp"
	"math"
	"slices"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// A LeverTest says which changes of a variant, the plain one, move a figure of its calls. All its
// variants took turns in the same blocks.
type LeverTest struct {
	Part string `json:"part"`
	record.Place
	Load    record.Load    `json:"load"`
	Metric  string         `json:"metric" jsonschema:"enum=mean,enum=p99,enum=cpu"` // the figure that the levers shall move
	Plain   string         `json:"plain"`                                           // the variant without a lever
	Time    *matrix.Figure `json:"plain_us"`                                        // the plain variant's figure; null if no trial is valid
	Against string         `json:"against,omitempty"`                               // a faster variant; absent if the question was not about a difference
	Gap     *matrix.Figure `json:"gap"`                                             // the plain variant's figure divided by the faster one's; null without one

	Levers   []LeverEffect      `json:"levers"`    // proven help first, the largest first; then the levers without a proven effect; harm last
	NotTried []scenario.LeftOut `json:"not_tried"` // levers that were not measured, and why
}

// A LeverEffect is the effect of one lever. Holm's correction treats the levers of a test as a family.
type LeverEffect struct {
	Name    string         `json:"name"`                                                                        // the change, as in gogc=400
	Variant string         `json:"variant"`                                                                     // the plain variant with the change
	Write   string         `json:"write,omitempty"`                                                             // the line to write into one's own program
	Costs   string         `json:"costs,omitempty"`                                                             // the price of the change
	Pairs   int            `json:"pairs"`                                                                       // number of repeats in which both variants have the figure
	Ratio   *matrix.Figure `json:"ratio"`                                                                       // the figure with the lever divided by the plain figure; null if one of them has no valid trial
	P       float64        `json:"p" jsonschema:"nullable"`                                                     // probability of such a ratio if the lever does nothing, Holm-adjusted; null with too few trials
	Verdict Verdict        `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=equivalent,enum=undecided"` // verdict on the variant with the lever
	Margin  float64        `json:"margin"`                                                                      // smallest of 0.01, 0.02, 0.05 and 0.1 by which the lever changes the figure at most; 0 if it may change it by more
	Share   *matrix.Figure `json:"share"`                                                                       // share of the difference to the faster variant that the lever removes; null without one, or if the difference is not proven
	CPU     *matrix.Figure `json:"cpu_ratio"`                                                                   // CPU time per call of both ends with the lever divided by the plain one; null if not measured

	IsDelay bool           `json:"delay,omitempty"` // an end computes longer in each call: no lever to use, but one that shows what time there is worth
	Slope   *matrix.Figure `json:"slope"`           // how much longer a call takes for each microsecond of a delay; null if the lever is no delay

	// The following fields are for a lever that makes the changes of two others.

	Both   []string       `json:"both,omitempty"` // names of the two, the one that helps more first; absent for one change
	Excess *matrix.Figure `json:"excess"`         // the figure with both, divided by the figure that follows if the two effects multiply; null for one change
	Beyond *matrix.Figure `json:"beyond"`         // the figure with both, divided by the figure with the better lever alone; null for one change
}

// Helps reports whether the lever is proven to make calls faster.
func (e *LeverEffect) Helps() bool { return e.Verdict == Faster && !e.IsDelay }

// Harms reports whether the lever is proven to make calls slower.
func (e *LeverEffect) Harms() bool { return e.Verdict == Slower && !e.IsDelay }

// isOpen reports whether more repeats may tell more.
func (e *LeverEffect) isOpen() bool {
	if e.IsDelay {
		return false
	}
	return !e.Helps() && !e.Harms() && !(e.Verdict == Equivalent && e.Margin <= matrix.Margin)
}

// FindLevers judges the levers of each part that asks for them, at each of its points.
func FindLevers(s *study.Study, points []*matrix.Point) (all []LeverTest) {
	for _, asked := range s.Levers {
		metric := cmp.Or(asked.Figure, matrix.Mean)
		fit, cpu := matrix.NewFit(points, metric), matrix.NewFit(points, matrix.CPU)
		for _, group := range matrix.ComparableGroups(points) {
			if plain := matrix.FindVariant(group, asked.Plain); plain != nil && plain.Cell.Part == asked.Part {
				all = append(all, leverFits{fit, cpu, group, plain, metric}.test(asked))
			}
		}
	}
	return all
}

// leverFits holds the fits of a test, and its points.
type leverFits struct {
	fit, cpu *matrix.Fit
	group    []*matrix.Point
	plain    *matrix.Point
	metric   string
}

func (f leverFits) test(asked study.LeverQuestion) LeverTest {
	same := f.plain.Conditions()
	t := LeverTest{
		Part: same.Part, Place: same.Place, Load: same.Load, Metric: f.metric,
		Plain: asked.Plain, Time: f.fit.Figure(f.plain), NotTried: asked.NotTried,
	}
	fast := matrix.FindVariant(f.group, asked.Against.String())
	if fast != nil {
		t.Against, t.Gap = fast.Cell.Variant, ratioFigure(f.fit, f.plain, fast)
	}
	family := Family{noise: f.usualNoise()}
	t.Levers = make([]LeverEffect, len(asked.Tried))
	for i, lever := range asked.Tried {
		e := &t.Levers[i]
		*e = LeverEffect{Name: lever.Name, Variant: lever.Stack.String(), Write: lever.Write, Costs: lever.Costs, IsDelay: lever.Delay > 0, P: math.NaN(), Verdict: Undecided}
		p := matrix.FindVariant(f.group, e.Variant)
		ratio, known := f.fit.Ratio(p, f.plain)
		e.CPU = ratioFigure(f.cpu, p, f.plain)
		if p == nil || !known {
			continue
		}
		e.Pairs, e.Ratio = matrix.CountPairs(p, f.plain, matrix.Metrics[f.metric]), &matrix.Figure{Value: ratio.Value}
		if t.Gap != nil && isProven(*t.Gap) {
			e.Share = f.shareOfGap(p, fast)
		}
		if len(lever.Both) == 2 {
			f.addTwoLevers(e, p, lever.Both, asked.Tried)
		}
		if e.IsDelay { // its effect is known to be there, so it is not in the family
			e.Ratio = new(ratio.Figure())
			e.Slope = slopeOf(t.Time, e.Ratio, time.Duration(lever.Delay))
			continue
		}
		family.Add(ratio, func(verdict stats.Comparison) {
			e.P, e.Verdict, e.Margin = verdict.P, timeVerdicts[verdict.Verdict], verdict.Margin
			*e.Ratio = matrix.FigureOf(verdict.Ratio)
		})
	}
	family.Judge()
	slices.SortStableFunc(t.Levers, func(a, b LeverEffect) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.size(), b.size()))
	})
	return t
}

// usualNoise returns samples of all variants of the test, two by two, which show the noise of its
// blocks better than the few ratios to the plain variant.
func (f leverFits) usualNoise() (all []sample) {
	for a, b := range comparablePairs([][]*matrix.Point{f.group}, f.metric) {
		if r, known := f.fit.Ratio(a, b); known && r.Enough && r.InBlocks {
			all = append(all, newSample(r.Estimate))
		}
	}
	return all
}

// slopeOf returns how much longer a call takes for each microsecond of a delay.
func slopeOf(plain, ratio *matrix.Figure, delay time.Duration) *matrix.Figure {
	if plain == nil {
		return nil
	}
	perMicrosecond := func(ratio float64) float64 {
		return plain.Value * (ratio - 1) / float64(delay.Microseconds())
	}
	slope := &matrix.Figure{Value: perMicrosecond(ratio.Value)}
	if i := ratio.Interval; i != nil {
		slope.Interval = &matrix.Interval{Low: perMicrosecond(i.Low), High: perMicrosecond(i.High), Confidence: i.Confidence}
	}
	return slope
}

// rank orders effects: proven help, nothing proven, proven harm, delays, no figure.
func (e *LeverEffect) rank() int {
	switch {
	case e.IsDelay:
		return 4
	case e.Ratio == nil:
		return 3
	case e.Helps():
		return 0
	case e.Harms():
		return 2
	}
	return 1
}

func (e *LeverEffect) size() float64 {
	if e.Ratio == nil {
		return math.Inf(1)
	}
	return e.Ratio.Value
}

// ratioFigure divides a's figure by b's. It returns nil if one of them is not known.
func ratioFigure(fit *matrix.Fit, a, b *matrix.Point) *matrix.Figure {
	if a == nil || b == nil {
		return nil
	}
	r, known := fit.Ratio(a, b)
	if !known {
		return nil
	}
	return new(r.Figure())
}

// shareOfGap returns the share of the difference between the plain and the fast variant that a lever
// removes. Times are subtracted, not their logarithms. The interval is Fieller's: it has each share s
// for which plain − lever − s·(plain − fast) may be zero.
func (f leverFits) shareOfGap(lever, fast *matrix.Point) *matrix.Figure {
	plain, moved, best := f.fit.Figure(f.plain), f.fit.Figure(lever), f.fit.Figure(fast)
	if plain == nil || moved == nil || best == nil || plain.Value == best.Value {
		return nil
	}
	points := []*matrix.Point{f.plain, lever, fast}
	isPossible := func(share float64) bool {
		weights := []float64{plain.Value * (1 - share), -moved.Value, best.Value * share}
		e, known := f.fit.Logs(points, weights)
		if !known {
			return true
		}
		reach := stats.NewStudent(e.Freedom).Quantile((1+f.plain.Level.Confidence())/2) * e.StandardError
		return math.Abs(weights[0]+weights[1]+weights[2]) <= reach
	}
	share := intervalOfShare((plain.Value-moved.Value)/(plain.Value-best.Value), isPossible)
	return &share
}

// addTwoLevers compares a lever that makes two changes with the levers that make one each.
func (f leverFits) addTwoLevers(e *LeverEffect, both *matrix.Point, stacks []scenario.Variant, tried []scenario.Lever) {
	a, b := matrix.FindVariant(f.group, stacks[0].String()), matrix.FindVariant(f.group, stacks[1].String())
	if !f.fit.Has(a) || !f.fit.Has(b) {
		return
	}
	if f.fit.Figure(b).Value < f.fit.Figure(a).Value {
		a, b = b, a
	}
	for _, p := range []*matrix.Point{a, b} {
		for _, lever := range tried {
			if lever.Stack.String() == p.Cell.Variant {
				e.Both = append(e.Both, lever.Name)
			}
		}
	}
	e.Beyond = ratioFigure(f.fit, both, a)
	if sum, known := f.fit.Logs([]*matrix.Point{both, f.plain, a, b}, []float64{1, 1, -1, -1}); known {
		e.Excess = new(matrix.FigureOf(sum.Interval(f.plain.Level.Confidence())))
	}
}

// lookAtLevers counts the levers and the undecided ones. An undecided lever is measured again with
// the plain variant.
func lookAtLevers(s *study.Study, points []*matrix.Point) (look Look) {
	for _, t := range FindLevers(s, points) {
		group := slices.DeleteFunc(slices.Clone(points), func(p *matrix.Point) bool {
			same := p.Conditions()
			return same.Part != t.Part || same.Place != t.Place || same.Load != t.Load
		})
		plain := matrix.FindVariant(group, t.Plain)
		for i := range t.Levers {
			e := &t.Levers[i]
			p := matrix.FindVariant(group, e.Variant)
			if p == nil || !p.MayHaveTrials() || !plain.MayHaveTrials() {
				continue
			}
			look.Of++
			if !e.isOpen() {
				continue
			}
			look.Open++
			open := OpenPoint{Cells: []record.Cell{plain.Cell, p.Cell}, Repeats: len(plain.Trials)}
			if e.Ratio != nil {
				open.Needed = (&Comparison{Ratio: *e.Ratio, Pairs: e.Pairs}).neededPairs(len(t.Levers))
			}
			look.Points = append(look.Points, open)
		}
	}
	return look
}
