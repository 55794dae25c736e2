package compare

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
	"wirelab.dev/internal/judge/check"
)

// A Look is one evaluation of a run that repeats until its goal is reached.
type Look struct {
	Open   int         // number of undecided comparisons or claims, or of cells with too wide an interval
	Of     int         // number of all comparisons, claims or cells
	Claims []OpenClaim // claims that more repeats may decide
	Points []OpenPoint // points with an undecided comparison, if the goal is about comparisons
}

// An OpenClaim is a claim that about as many repeats as Needed decide.
type OpenClaim struct{ Index, Needed int }

// An OpenPoint holds the cells of a point that has an undecided comparison. The cells differ in
// their variants only.
type OpenPoint struct {
	Cells   []record.Cell
	Repeats int // number of repeats so far
	Needed  int // about as many repeats decide the first of its open comparisons
}

// EvaluateLook evaluates a run by its goal. The goal is about claims, about the intervals of cells,
// about levers, or about comparisons of the mean, or of throughput if only this is compared. It leaves out cells
// that have no valid trial, and would get none by more repeats.
func EvaluateLook(m *record.Manifest, records []*record.Record) (Look, error) {
	run, err := study.ReadRun(m, records, check.Limits{})
	switch {
	case err != nil:
		return Look{}, err
	case m.Until.Claims:
		return lookAtClaims(JudgeClaims(run.Study, run.Points, run.Counted), m.Until.Looks[m.Until.Begun-1].Repeats), nil
	case m.Until.Width > 0:
		return lookAtCells(run.Points, m.Until.Width), nil
	case len(run.Study.Levers) > 0 && len(run.Study.Claims) == 0:
		return lookAtLevers(run.Study, run.Points), nil
	}
	return lookAtComparisons(run.Points), nil
}

func lookAtComparisons(points []*matrix.Point) (look Look) {
	comparisons, _ := CompareAll(points)
	for _, metric := range []string{matrix.Mean, matrix.Throughput} {
		own := slices.DeleteFunc(slices.Clone(comparisons), func(c Comparison) bool { return c.Metric != metric })
		for _, group := range lists.GroupBy(points, (*matrix.Point).Conditions) {
			open := OpenPoint{Needed: math.MaxInt}
			openBefore := look.Open
			for a, b := range comparablePairs([][]*matrix.Point{group}, metric) {
				if !a.MayHaveTrials() || !b.MayHaveTrials() {
					continue
				}
				look.Of++
				i := slices.IndexFunc(own, func(c Comparison) bool { return c.points == [2]*matrix.Point{a, b} })
				if i >= 0 && !own[i].IsOpen() {
					continue
				}
				look.Open++
				needed := 0
				if i >= 0 {
					needed = own[i].neededPairs(len(own))
				}
				open.Needed = min(open.Needed, needed)
			}
			if look.Open > openBefore {
				for _, p := range group {
					open.Cells = append(open.Cells, p.Cell)
					open.Repeats = max(open.Repeats, len(p.Trials))
				}
				look.Points = append(look.Points, open)
			}
		}
		if look.Of > 0 {
			break
		}
	}
	return look
}

// neededPairs returns about how many pairs decide the comparison, as one of several: whether the
// ratio differs from 1, or whether it is within the margin. It returns 0 if nothing is known yet.
func (c *Comparison) neededPairs(comparisons int) int {
	i := c.Ratio.Interval
	if i == nil {
		return 0
	}
	ratio := math.Abs(math.Log(c.Ratio.Value))
	// The interval is for this comparison alone and for few pairs. Of many pairs, Holm's first step
	// asks for these multiples of the standard error.
	standardError := math.Log(i.High/i.Low) / 2 / stats.NewStudent(float64(max(1, c.Pairs-1))).Quantile((1+matrix.Confidence)/2)
	alone := distuv.UnitNormal.Quantile((1 + matrix.Confidence) / 2)
	corrected := distuv.UnitNormal.Quantile(1 - (1-matrix.Confidence)/2/float64(max(1, comparisons)))
	enough := max(ratio/corrected, (math.Log1p(matrix.Margin)-ratio)/alone) // a standard error that decides
	return int(min(1e6, math.Ceil(float64(c.Pairs)*standardError*standardError/(enough*enough))))
}

// lookAtClaims counts the claims and the undecided claims, and lists the claims that more repeats may
// decide. A claim without a figure in some repeats needs more of them.
func lookAtClaims(claims []Claim, repeats int) (look Look) {
	for i := range claims {
		c := &claims[i]
		if c.Unasked {
			continue
		}
		look.Of++
		if !c.isOpen() {
			continue
		}
		look.Open++
		switch {
		case c.Pairs < matrix.LeastTrials || c.cold:
			look.Claims = append(look.Claims, OpenClaim{i, repeats * matrix.LeastTrials / max(1, c.Pairs)})
		case c.NeededPairs != nil:
			look.Claims = append(look.Claims, OpenClaim{i, repeats * *c.NeededPairs / c.Pairs})
		}
	}
	return look
}

func lookAtCells(points []*matrix.Point, width float64) (look Look) {
	means, rates := matrix.NewFit(points, matrix.Mean), matrix.NewFit(points, matrix.Throughput)
	for _, p := range points {
		if !p.MayHaveTrials() {
			continue
		}
		fit := means
		if p.Cell.Load.Model == "search" {
			fit = rates
		}
		look.Of++
		if share, known := cmp.Or(fit.Figure(p), &matrix.Figure{}).HalfWidth(); !known || share > width {
			look.Open++
		}
	}
	return look
}
