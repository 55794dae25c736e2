package compare

import (
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// A Look is the result of looking at a run that repeats until something stands.
type Look struct {
	Open int // comparisons or claims that are undecided, or cells that are not known well enough
	Of   int
}

// TakeLook looks at the trials of a run, by its goal: at the claims; at the cells' intervals,
// of the mean response time or of a search's rate; or at the comparisons of the mean, or of
// throughput if only that is compared. It leaves out cells without a valid trial, because more
// repeats would bring none, unless only other programs spoiled them. again holds the places of
// the claims that more repeats may decide.
func TakeLook(m *record.Manifest, records []*record.Record) (found Look, again []int, err error) {
	s, err := study.Read(m)
	if err != nil {
		return Look{}, nil, err
	}
	measured, profiled := study.SplitProfiled(records)
	points, err := study.Gather(s, measured)
	if err != nil {
		return Look{}, nil, err
	}
	if m.Until.Claims {
		seen, err := study.Gather(s, study.WithProbe(profiled, record.ProbeSyscalls))
		if err != nil {
			return Look{}, nil, err
		}
		most := m.Until.Looks[len(m.Until.Looks)-1].Repeats
		found, again = lookAtClaims(JudgeClaims(s, points, seen), most)
		return found, again, nil
	}
	if m.Until.Width > 0 {
		return lookAtCells(points, m.Until.Width), nil, nil
	}
	return lookAtComparisons(points), nil, nil
}

func lookAtComparisons(points []*matrix.Point) (found Look) {
	comparisons, _ := All(points)
	for _, metric := range []string{matrix.Mean, matrix.Throughput} {
		for a, b := range pairsAt(lists.GroupBy(points, (*matrix.Point).Conditions), metric) {
			if a.Promises() && b.Promises() {
				found.Of++
			}
		}
		decided := 0
		for _, c := range comparisons {
			if c.Metric == metric && c.Verdict != Undecided {
				decided++
			}
		}
		found.Open = found.Of - decided
		if found.Of > 0 {
			break
		}
	}
	return found
}

// worthwhile bounds how many times the most repeats of a run a claim may need and still be
// measured again. The need is itself an estimate.
const worthwhile = 4

func lookAtClaims(claims []Claim, most int) (found Look, again []int) {
	for i := range claims {
		c := &claims[i]
		if c.Unasked {
			continue
		}
		found.Of++
		if !c.isOpen() {
			continue
		}
		found.Open++
		if c.Pairs < matrix.LeastTrials || c.NeededPairs != nil && *c.NeededPairs <= worthwhile*most {
			again = append(again, i)
		}
	}
	return found, again
}

func lookAtCells(points []*matrix.Point, width float64) (found Look) {
	for _, p := range points {
		trials := p.Valid()
		if !p.Promises() {
			continue
		}
		of := matrix.Metrics[matrix.Mean]
		if p.Cell.Load.Model == "search" {
			of = matrix.Metrics[matrix.Throughput]
		}
		found.Of++
		if !matrix.Over(trials, of).IsWithin(width) {
			found.Open++
		}
	}
	return found
}
