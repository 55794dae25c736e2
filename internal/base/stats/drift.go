package stats

import (
	"math"
	"slices"
)

// A Drift is a series that approaches a steady level by an exponential.
type Drift struct {
	Bias float64 // of the series' mean, relative to the level that it approaches
	Seen float64 // the same relative to where the series ends, which is no guess
	// After is the time until the series is within a hundredth of that level, from its start
	// and in lengths of the series.
	After float64
	// Evidence is the number of standard errors by which the drift differs from none. The best of
	// six curves is taken: of steady series 1 in 100 have more than [CertainDrift].
	Evidence float64
}

// CertainDrift is the evidence from which a drift is not chance.
const CertainDrift = 3.1

const (
	// driftBatches is the number of means that a series is reduced to: enough for a curve, and
	// few enough for neighbours to be nearly independent.
	driftBatches      = 40
	leastDriftBatches = 20
	driftSettled      = 0.01
)

// driftTimes lists the time constants that are tried, in lengths of the series. The last is
// nearly a straight line.
var driftTimes = []float64{0.05, 0.1, 0.2, 0.4, 0.8, 1.6}

// FindDrift describes how a series of figures of equal intervals still approaches a steady
// level, and with how much evidence: all noise looks like some drift. It fits exponentials by
// least squares; noise that lasts for some intervals widens the error of the fit. Series of
// fewer than twenty values, or with a value that is not a number, have no drift.
func FindDrift(series []float64) Drift {
	values := meansOf(series, driftBatches)
	if len(values) < leastDriftBatches || checkFinite(values) != nil || slices.Min(values) == slices.Max(values) {
		return Drift{}
	}
	var best approach
	for _, time := range driftTimes {
		if fit := fitExponential(values, time); best.time == 0 || fit.squares < best.squares {
			best = fit
		}
	}
	return best.drift()
}

// meansOf reduces values to at most n means of neighbours. It leaves out values at the end
// that do not fill one.
func meansOf(values []float64, most int) []float64 {
	each := max(1, len(values)/most)
	var means []float64
	for ; len(values) >= each && len(means) < most; values = values[each:] {
		sum := 0.0
		for _, value := range values[:each] {
			sum += value
		}
		means = append(means, sum/float64(each))
	}
	return means
}

// An approach is the curve level + amplitude·e^(−x/time), for x from 0 to 1.
type approach struct {
	time, level, amplitude float64
	amplitudeError         float64
	squares                float64 // of what it leaves unexplained
	mean                   float64 // of the values
}

func fitExponential(values []float64, time float64) approach {
	n := float64(len(values))
	curve := make([]float64, len(values))
	var meanCurve, mean float64
	for i, value := range values {
		curve[i] = math.Exp(-(float64(i) + 0.5) / n / time)
		meanCurve += curve[i] / n
		mean += value / n
	}
	var both, own float64
	for i, value := range values {
		both += (curve[i] - meanCurve) * (value - mean)
		own += (curve[i] - meanCurve) * (curve[i] - meanCurve)
	}
	f := approach{time: time, amplitude: both / own, mean: mean}
	f.level = mean - f.amplitude*meanCurve
	var lagged, last float64
	for i, value := range values {
		left := value - f.level - f.amplitude*curve[i]
		f.squares += left * left
		lagged += left * last
		last = left
	}
	correlation := min(0.9, max(0, lagged/f.squares))
	f.amplitudeError = math.Sqrt(f.squares / (n - 2) / own * (1 + correlation) / (1 - correlation))
	return f
}

// drift reads the fit. A level that lies further beyond the last value than the series
// has moved is a guess: it is drawn back to there, and to within a half of the last.
func (f approach) drift() Drift {
	end := f.amplitude * math.Exp(-1/f.time)
	moved := f.amplitude - end
	if math.Abs(end) > math.Abs(moved) {
		end = moved
	}
	last := f.level + f.amplitude*math.Exp(-1/f.time)
	level := last - end
	if last <= 0 {
		last = f.mean
	}
	level = min(max(level, last*2/3), last*3/2)
	d := Drift{Bias: f.mean/level - 1, Seen: f.mean/last - 1, After: 1, Evidence: math.Abs(f.amplitude) / f.amplitudeError}
	if left := math.Abs(f.amplitude) / (driftSettled * level); left > 1 {
		d.After = f.time * math.Log(left)
	}
	return d
}
