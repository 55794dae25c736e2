package matrix

import "wirelab.dev/internal/data/record"

// Confidence is the confidence of every interval that does not state another.
const Confidence = 0.95

// A Level is the chance of a false finding that one look at a run may use. The levels of all
// its looks together are 1 - Confidence. Zero stands for all of it, for the only look of an
// ordinary run.
type Level float64

// Confidence returns the confidence of an interval at this look. The intervals of all looks
// together hold the truth with the confidence of the run, which is the one they state.
func (l Level) Confidence() float64 {
	if l == 0 {
		return Confidence
	}
	return 1 - float64(l)
}

// Adjust corrects a probability for the looks: it is a finding if it is below 1 - Confidence,
// as in an ordinary run.
func (l Level) Adjust(p float64) float64 {
	if l == 0 {
		return p
	}
	return min(1, p*(1-Confidence)/float64(l))
}

// LevelOf returns the level of the look whose trials are being measured, or were the last.
func LevelOf(u *record.Until) Level {
	if u == nil || u.Check() != nil {
		return 0
	}
	begun := LevelsOf(u)
	return begun[len(begun)-1]
}

// LevelsOf returns the levels of the looks that have begun. If time ended the run, and not
// what was found, there is no further look, and the last one has the level of all that were
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

// Looks plans looks after the first number of repeats, after half as many again each time, and
// after the most. The level of a look is the share of its new repeats in the most. So at most
// 1 - Confidence of the runs find a difference that does not exist, at whichever look they
// end.
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
