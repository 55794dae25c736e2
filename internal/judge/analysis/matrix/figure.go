package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// LeastTrials is the least number of trials for an interval or a verdict.
const LeastTrials = 3

// Margin is the relative difference below which two variants count as equal.
const Margin = 0.05

// A Figure is a number with its interval. Interval is nil if there are too few trials.
type Figure struct {
	Value    float64
	Interval *Interval
}

// An Interval contains the true value with the probability Confidence.
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

// HalfWidth returns half of the interval's width as a share of the figure.
func (f Figure) HalfWidth() (share float64, known bool) {
	if f.Interval == nil || !(f.Value > 0) {
		return 0, false
	}
	return (f.Interval.High - f.Interval.Low) / 2 / f.Value, true
}

// figure returns the median of the trials' figures. The interval is for their mean, by Student's t,
// because intervals for the median of a few trials miss the true value too often. Positive figures
// use logarithms. The interval is widened if it does not contain the median.
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
	return expInterval(interval), err
}

func expInterval(i stats.Interval) stats.Interval {
	i.Estimate, i.Low, i.High = math.Exp(i.Estimate), math.Exp(i.Low), math.Exp(i.High)
	return i
}

// FigureOfLogs returns the figure for an interval of its logarithm.
func FigureOfLogs(i stats.Interval) Figure { return FigureOf(expInterval(i)) }

// FigureOf converts an interval. Its confidence becomes the confidence of all looks of the run together.
// If it is 0, the figure has no interval.
func FigureOf(i stats.Interval) Figure {
	f := Figure{Value: i.Estimate}
	if i.Confidence > 0 {
		f.Interval = &Interval{Low: i.Low, High: i.High, Confidence: Confidence}
	}
	return f
}

// ArePositive reports whether every value is known and above zero, so that ratios exist.
func ArePositive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}

// KneePoints is the least number of points on a curve for finding a knee.
const KneePoints = 5

// Confidence is the default confidence level of an interval.
const Confidence = 0.95

// A Level is the allowed probability of a false finding at one look, that is, one evaluation of a
// run. The levels of all looks add up to 1 - Confidence. Zero means that the run has only one look.
type Level float64

// Confidence returns the confidence of an interval at this look.
func (l Level) Confidence() float64 {
	if l == 0 {
		return Confidence
	}
	return 1 - float64(l)
}

// Adjust corrects a probability for the number of looks. A result below 1 - Confidence is
// significant.
func (l Level) Adjust(p float64) float64 {
	if l == 0 {
		return p
	}
	return min(1, p*(1-Confidence)/float64(l))
}

// Stricter returns the level that allows fewer false findings.
func Stricter(a, b Level) Level {
	if b.Confidence() > a.Confidence() {
		return b
	}
	return a
}

// LevelAfter returns the level of the look that judges a cell after a number of repeats. A cell that
// later looks left out keeps the level of its own last look.
func LevelAfter(u *record.Until, repeats int) Level {
	if u == nil || u.Check() != nil {
		return 0
	}
	begun := BegunLevels(u)
	for i := range begun {
		if repeats <= u.Looks[i].Repeats {
			return begun[i]
		}
	}
	return begun[len(begun)-1]
}

// BegunLevels returns the levels of the looks that have begun. If the run ended because its time
// was over, the last look also gets the levels of the looks that were planned after it.
func BegunLevels(u *record.Until) []Level {
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

// PlanLooks plans the looks of a run. The first look comes after first repeats, and the last look
// after most repeats. In between, the repeats grow by half from look to look. The levels of
// the looks are in proportion to 1, 1/2, 1/3 and so on. They add up to 1 - Confidence.
func PlanLooks(first, most int) []record.InterimLook {
	var looks []record.InterimLook
	for next := first; 5*next <= 4*most; next = (3*next + 1) / 2 { // a look shortly before the last look finds little
		looks = append(looks, record.InterimLook{Repeats: next})
	}
	looks = append(looks, record.InterimLook{Repeats: most})
	sum := 0.0
	for i := range looks {
		sum += 1 / float64(i+1)
	}
	for i := range looks {
		looks[i].Level = (1 - Confidence) / float64(i+1) / sum
	}
	return looks
}
