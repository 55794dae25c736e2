package lab

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

const (
	// plannedWindows is the number of repeats that measure the planned window. They show how the
	// figures scatter, and let the run's first look come in time.
	plannedWindows = 3
	// mostStretch bounds a stretched window, as a multiple of the planned one.
	mostStretch = 4
	// leastBetween is the least variance between a point's blocks that is assumed: few blocks can be
	// alike by chance.
	leastBetween = 0.01 * 0.01
)

// scatter holds what the blocks of a run have shown about the scatter of their figures.
type scatter []shownScatter

type shownScatter struct {
	point    record.Cell // what all variants of the point share
	slices   matrix.SliceScatter
	windowNS float64 // of each trial
	startNS  float64 // the time that the block took for starts and ends
	turnsNS  float64 // the time of all turns
}

// learn adds a block, unless it is of a single trial.
func (s *scatter) learn(records []*record.Record) {
	if len(records) < 2 || records[0].Block == 0 {
		return
	}
	byVariant := slices.Clone(records) // the plan shuffles them
	slices.SortFunc(byVariant, func(a, b *record.Record) int { return cmp.Compare(a.Cell.Variant, b.Cell.Variant) })
	shown, known := matrix.NewSliceScatter(byVariant)
	if !known {
		return
	}
	one := records[0]
	first, last := one.Slices[0], one.Slices[len(one.Slices)-1]
	turns := float64(last.AtNS + last.TookNS - first.AtNS)
	*s = append(*s, shownScatter{
		point: pointOf(one.Cell), slices: shown, windowNS: float64(one.WindowNS),
		startNS: max(0, float64(one.TookNS)*float64(len(records))-turns), turnsNS: turns,
	})
}

// pointOf returns what the cells of all variants of a point share.
func pointOf(c record.Cell) record.Cell {
	return record.Cell{Part: c.Part, Place: c.Place, Network: c.Network}
}

// nextWindow returns the window of a point's next block. With it, the run's intervals become as narrow as
// they can in its time (Kalibera and Jones 2013):
//
//	slices = √(time of a start ÷ time of a slice × variance of slices ÷ variance of blocks)
func (s scatter) nextWindow(point record.Cell, planned time.Duration) time.Duration {
	var own scatter
	for _, one := range s {
		if one.point == point {
			own = append(own, one)
		}
	}
	if len(own) < plannedWindows {
		return planned
	}
	ofSlices := own.mean(func(b shownScatter) float64 { return b.slices.Variance })
	perPair := func(whole func(shownScatter) float64) float64 {
		return own.mean(func(b shownScatter) float64 { return whole(b) / float64(b.slices.Pairs) })
	}
	start := own.mean(func(b shownScatter) float64 { return b.startNS })
	turns := perPair(func(b shownScatter) float64 { return b.turnsNS })
	pairs := math.Sqrt(start / turns * ofSlices / s.betweenBlocks())
	stretched := time.Duration(pairs * perPair(func(b shownScatter) float64 { return b.windowNS }))
	return min(max(planned, stretched), mostStretch*planned)
}

// betweenBlocks returns the variance between blocks of a point, over all points of the run: a point
// alone has too few blocks to tell. What the slices add to it is taken off.
func (s scatter) betweenBlocks() float64 {
	var squares, freedom float64
	type group struct {
		point  record.Cell
		trials int // a block that a resumed run completed has fewer
	}
	for _, same := range lists.GroupBy(s, func(b shownScatter) group { return group{b.point, len(b.slices.Means)} }) {
		for i := range same[0].slices.Means {
			means := lists.Map(same, func(b shownScatter) float64 { return b.slices.Means[i] })
			if len(means) > 1 {
				squares += stat.Variance(means, nil) * float64(len(means)-1)
				freedom += float64(len(means) - 1)
			}
		}
	}
	bySlices := s.mean(func(b shownScatter) float64 { return b.slices.Variance / float64(b.slices.Pairs) })
	return max(leastBetween, squares/max(1, freedom)-bySlices)
}

func (s scatter) mean(of func(shownScatter) float64) float64 { return stat.Mean(lists.Map(s, of), nil) }
