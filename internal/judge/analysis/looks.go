package analysis

import (
	"math"
	"slices"

	"wirelab.dev/internal/data/record"
)

// level is the chance of a false finding that what is judged now may use, where a run
// looks at its result several times: the looks' levels together are 1 - confidence. Zero
// is all of it, for the only look of an ordinary run.
type level float64

// confidence is that of an interval at this look. All looks' intervals together hold the
// truth with that of the run, which is what they state.
func (l level) confidence() float64 {
	if l == 0 {
		return confidence
	}
	return 1 - float64(l)
}

// adjust corrects a probability for the looks: it is a finding where it is below
// 1 - confidence, as in an ordinary run.
func (l level) adjust(p float64) float64 {
	if l == 0 {
		return p
	}
	return min(1, p*(1-confidence)/float64(l))
}

// levelOf is that of the look whose trials are being measured, or were the last.
func levelOf(u *record.Until) level {
	if u == nil || u.Check() != nil {
		return 0
	}
	begun := levelsOf(u)
	return begun[len(begun)-1]
}

// levelsOf are those of the looks that have begun. Where time ended the run, and not what
// was found, no further look will be taken, and the last has the level of all that were
// planned behind it.
func levelsOf(u *record.Until) []level {
	levels := make([]level, u.Begun)
	unspent := 1 - confidence
	for i, look := range u.Looks[:u.Begun] {
		levels[i] = level(look.Level)
		unspent -= look.Level
	}
	if u.Ended == record.EndedByTime {
		levels[u.Begun-1] += level(max(0, unspent))
	}
	return levels
}

// Looks are those after the first number of repeats, after half as many again each time,
// and after the most. Each has the level that is the share of its own repeats in the most,
// so that by the sum of probabilities at most 1 - confidence of the runs find what is not
// there, at whichever look they end.
func Looks(first, most int) []record.Look {
	var looks []record.Look
	for before, next := 0, first; before < most; {
		if 5*next > 4*most { // a look soon before the last finds little more
			next = most
		}
		looks = append(looks, record.Look{Repeats: next, Level: (1 - confidence) * (float64(next-before) / float64(most))})
		before, next = next, (3*next+1)/2
	}
	return looks
}

// Look is what a look at a run that repeats until something stands has found.
type Look struct {
	Open int // comparisons or claims that are undecided, or cells that are not known well enough
	Of   int
}

// TakeLook looks at the trials of a run: at its comparisons of the mean, or of throughput
// where only that is compared; where it repeats until the interval stands, at the cells'
// mean response time, of searches at the rate. Cells without a valid trial are left out,
// as more repeats would bring none; but those that only other programs spoiled are not.
// Where it repeats until claims stand, again are the places of those that more repeats may
// decide.
func TakeLook(m *record.Manifest, judged Judged) (found Look, again []int, err error) {
	s, err := readStudy(m)
	if err != nil {
		return Look{}, nil, err
	}
	measured, profiled := splitProfiled(judged.Records)
	points, err := gather(s, measured)
	if err != nil {
		return Look{}, nil, err
	}
	if m.Until.Claims {
		seen, err := gather(s, withProbe(profiled, record.ProbeSyscalls))
		if err != nil {
			return Look{}, nil, err
		}
		most := m.Until.Looks[len(m.Until.Looks)-1].Repeats
		found, again = lookAtClaims(judgeClaims(s, points, seen), most)
		return found, again, nil
	}
	if m.Until.Width > 0 {
		return lookAtCells(points, m.Until.Width), nil, nil
	}
	return lookAtComparisons(points), nil, nil
}

// promises reports whether a point has valid trials or may get some.
func (p *point) promises() bool {
	return slices.ContainsFunc(p.trials, func(t trial) bool { return t.valid || spoiledByMachine(t.Record) })
}

func lookAtComparisons(points []*point) (found Look) {
	comparisons, _ := compareAll(points)
	for _, metric := range []string{Mean, Throughput} {
		for a, b := range compared(groupBy(points, (*point).conditions), metric) {
			if a.promises() && b.promises() {
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

// hopeless is how many times the repeats that a run makes at most a claim must need, that it
// is not worth them: its need is itself an estimate.
const hopeless = 4

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
		if c.Pairs < LeastTrials || c.NeededPairs != nil && *c.NeededPairs <= hopeless*most {
			again = append(again, i)
		}
	}
	return found, again
}

func lookAtCells(points []*point, width float64) (found Look) {
	for _, p := range points {
		trials := p.valid()
		if !p.promises() {
			continue
		}
		of := meanResponse
		if p.cell.Load.Model == "search" {
			of = throughput
		}
		found.Of++
		if !over(trials, of).IsWithin(width) {
			found.Open++
		}
	}
	return found
}

// IsWithin reports whether the interval ends no further from the value than a share of it.
func (f Figure) IsWithin(width float64) bool {
	i := f.Interval
	return i != nil && math.Max(i.High-f.Value, f.Value-i.Low) <= width*f.Value
}
