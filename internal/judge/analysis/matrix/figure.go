package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// LeastTrials is the number of trials from which there are intervals and verdicts.
const LeastTrials = 3

// Margin is the relative difference below which two wires count as equal.
const Margin = 0.05

// A Figure is a number with its interval. The interval is nil with too few trials.
type Figure struct {
	Value    float64
	Interval *Interval
}

// Interval contains the true value with the stated confidence.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // 0.95 for 95 %
}

// Inverse returns the inverse of the ratio, with its interval.
func (f Figure) Inverse() Figure {
	inverted := Figure{Value: 1 / f.Value}
	if i := f.Interval; i != nil {
		inverted.Interval = &Interval{Low: 1 / i.High, High: 1 / i.Low, Confidence: i.Confidence}
	}
	return inverted
}

// IsWithin reports whether the interval's ends are at most this share away from the value.
func (f Figure) IsWithin(width float64) bool {
	i := f.Interval
	return i != nil && math.Max(i.High-f.Value, f.Value-i.Low) <= width*f.Value
}

// HalfWidth returns half of the interval as a share of the figure, if there is an interval.
func (f Figure) HalfWidth() (share float64, known bool) {
	if f.Interval == nil || !(f.Value > 0) {
		return 0, false
	}
	return (f.Interval.High - f.Interval.Low) / 2 / f.Value, true
}

// figure returns the median of the trials' figures. The interval is that of their mean, by
// Student's t: for three to ten trials, intervals of a median cover too seldom. Positive figures
// use logarithms, because their noise is a factor. If outliers pull the mean away from the median,
// the interval is widened to contain both.
func figure(values []float64, at Level) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	f := Figure{Value: stats.Median(values)}
	interval, err := meanInterval(values, at.Confidence())
	if err != nil {
		return f // too few trials
	}
	f.Interval = &Interval{
		Low:        min(interval.Low, f.Value),
		High:       max(interval.High, f.Value),
		Confidence: Confidence,
	}
	return f
}

func meanInterval(values []float64, confidence float64) (stats.Interval, error) {
	logs := make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return stats.MeanInterval(values, confidence)
		}
		logs[i] = math.Log(v)
	}
	interval, err := stats.MeanInterval(logs, confidence)
	return exp(interval), err
}

// exp turns an interval of logarithms into an interval of figures.
func exp(i stats.Interval) stats.Interval {
	i.Estimate, i.Low, i.High = math.Exp(i.Estimate), math.Exp(i.Low), math.Exp(i.High)
	return i
}

// FigureOfLogs returns the figure for an interval of its logarithm.
func FigureOfLogs(i stats.Interval) Figure { return FigureOf(Stated(exp(i))) }

// Stated sets an interval's confidence to that of all looks together.
func Stated(i stats.Interval) stats.Interval {
	i.Confidence = Confidence
	return i
}

// FigureOf converts an interval of package stats. A confidence of 0 means the estimate alone.
func FigureOf(i stats.Interval) Figure {
	f := Figure{Value: i.Estimate}
	if i.Confidence > 0 {
		f.Interval = &Interval{Low: i.Low, High: i.High, Confidence: i.Confidence}
	}
	return f
}

// ArePositive reports whether every value is known and above zero, as ratios need.
func ArePositive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}

// KneePoints is the number of concurrencies from which a knee can be found.
const KneePoints = 5

// Confidence is the confidence of intervals without their own.
const Confidence = 0.95

// A Level is the probability of a false finding allowed for one look at a run. The levels of all
// looks add up to 1 - Confidence. Zero means all of it, for the only look of an ordinary run.
type Level float64

// Confidence returns the confidence of an interval at this look. Intervals of all looks together
// contain the truth with the run's confidence, which they state.
func (l Level) Confidence() float64 {
	if l == 0 {
		return Confidence
	}
	return 1 - float64(l)
}

// Adjust corrects a probability for the number of looks. Below 1 - Confidence it is a finding.
func (l Level) Adjust(p float64) float64 {
	if l == 0 {
		return p
	}
	return min(1, p*(1-Confidence)/float64(l))
}

// LevelOf returns the level of the current or the last look.
func LevelOf(u *record.Until) Level {
	if u == nil || u.Check() != nil {
		return 0
	}
	begun := LevelsOf(u)
	return begun[len(begun)-1]
}

// LevelsOf returns the levels of the looks that have begun. If time ended the run before its goal,
// there is no further look, and the last one also gets the levels planned after it.
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

// Looks plans looks after the first number of repeats, then each time after half as many again,
// and after the most. A look's level is its new repeats' share of the most. So at most 1 -
// Confidence of the runs find a difference that does not exist, at any look.
func Looks(first, most int) []record.Look {
	var looks []record.Look
	for before, next := 0, first; before < most; {
		if 5*next > 4*most { // a look shortly before the last finds little
			next = most
		}
		looks = append(looks, record.Look{Repeats: next, Level: (1 - Confidence) * (float64(next-before) / float64(most))})
		before, next = next, (3*next+1)/2
	}
	return looks
}
