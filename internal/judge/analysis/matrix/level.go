package matrix

import "wirelab.dev/internal/data/record"

// level is the chance of a false finding that what is judged now may use, where a run
// looks at its result several times: the looks' levels together are 1 - confidence. Zero
// is all of it, for the only look of an ordinary run.
type Level float64

// confidence is that of an interval at this look. All looks' intervals together hold the
// truth with that of the run, which is what they state.
func (l Level) Confidence() float64 {
	if l == 0 {
		return Confidence
	}
	return 1 - float64(l)
}

// adjust corrects a probability for the looks: it is a finding where it is below
// 1 - confidence, as in an ordinary run.
func (l Level) Adjust(p float64) float64 {
	if l == 0 {
		return p
	}
	return min(1, p*(1-Confidence)/float64(l))
}

// levelOf is that of the look whose trials are being measured, or were the last.
func LevelOf(u *record.Until) Level {
	if u == nil || u.Check() != nil {
		return 0
	}
	begun := LevelsOf(u)
	return begun[len(begun)-1]
}

// levelsOf are those of the looks that have begun. Where time ended the run, and not what
// was found, no further look will be taken, and the last has the level of all that were
// planned behind it.
func LevelsOf(u *record.Until) []Level {
	levels := make([]Level, u.Begun)
	unspent := 1 - Confidence
	for i, look := range u.Looks[:u.Begun] {
		levels[i] = Level(look.Level)
		unspent -= look.Level
	}
	if u.Ended == record.EndedByTime {
		levels[u.Begun-1] += Level(max(0, unspent))
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
		looks = append(looks, record.Look{Repeats: next, Level: (1 - Confidence) * (float64(next-before) / float64(most))})
		before, next = next, (3*next+1)/2
	}
	return looks
}
