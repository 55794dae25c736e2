package stats

import (
	"math"
	"slices"
)

const (
	// mserBatch is the five of MSER-5 (White, Cobb and Spratt, 2000): means of five values
	// smooth the series and still show its trend.
	mserBatch = 5

	// mserLeastBatches is the smallest number of batches after a cut: the variance of fewer can be
	// small by accident.
	mserLeastBatches = 5
)

// MSER5 returns how much of a series to cut off as warm-up: the cut, in steps of five values,
// that minimises the standard error of the mean of the rest. The values are figures of equal
// intervals, in time order. The series is not settled when that cut lies in its last half, when
// it has fewer than 50 values, or one that is not a number. It assumes that a steady part is
// longer than the warm-up before it.
func MSER5(series []float64) (cut int, settled bool) {
	means := batchMeans(series, mserBatch)
	n := len(means)
	if n < 2*mserLeastBatches || checkFinite(means) != nil {
		return 0, false
	}
	// From the end to the start the sums grow by one batch at a time. Centring
	// on the last batch keeps their difference from cancelling.
	origin := means[n-1]
	var sum, squares float64
	best := math.Inf(1)
	bestCut := 0
	for first := n - 1; first >= 0; first-- {
		deviation := means[first] - origin
		sum += deviation
		squares += deviation * deviation
		kept := float64(n - first)
		if n-first < mserLeastBatches {
			continue
		}
		// At equal error the longer series is the better one.
		if statistic := max(squares-sum*sum/kept, 0) / (kept * kept); statistic <= best {
			best, bestCut = statistic, first
		}
	}
	return bestCut * mserBatch, bestCut <= n/2
}

// batchMeans leaves out an incomplete last batch.
func batchMeans(series []float64, each int) []float64 {
	means := make([]float64, len(series)/each)
	for i := range means {
		for _, value := range series[i*each : (i+1)*each] {
			means[i] += value
		}
		means[i] /= float64(each)
	}
	return means
}

// A Drift is a series that approaches a steady level by an exponential.
type Drift struct {
	Bias float64 // of the series' mean, relative to the level that it approaches
	Seen float64 // the same relative to the series' last value, which is not a guess
	// After is the time until the series is within a hundredth of that level, from its start
	// and in lengths of the series.
	After float64
	// Evidence is the number of standard errors between the drift and none. It is the best of six
	// curves: 1 in 100 steady series has more than [CertainDrift].
	Evidence float64
}

// CertainDrift is the evidence above which a drift is not chance.
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
// level, and with how much evidence. It fits exponentials by least squares; noise that lasts for
// some intervals widens the error of the fit. Series of fewer than twenty values, or with a
// value that is not a number, have no drift.
func FindDrift(series []float64) Drift {
	values := batchMeans(series, max(1, len(series)/driftBatches))
	values = values[:min(len(values), driftBatches)]
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

// drift returns the fit as a Drift. A level that lies further beyond the last value than the
// series has moved is a guess: it is limited to that distance, and to half of the last value.
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

// A Backlog describes an open loop's queue over a window.
type Backlog struct {
	// OfferedPerSecond is the schedule's rate. The real arrivals would only add chance: a queue
	// that is never empty serves at its own rate.
	OfferedPerSecond float64
	ServedPerSecond  []float64 // in equal stretches of the window, in order
	Grew             float64   // arrivals less answers over the window
	Mean             float64   // mean number of requests that were due and not answered
}

const (
	// leastStretches is the fewest stretches that show how the served rate varies.
	leastStretches = 5
	// beyondConfidence limits, to 1 in 200 per trial, the chance that a queue is wrongly called
	// overloaded. The two conditions below lower it further.
	beyondConfidence = 0.99
	// grownShare is the smallest share of the mean backlog, and so of the mean response time, that
	// growth within the window must explain.
	grownShare = 0.10
	// leastGrowth is the growth that requests at the edges of the window explain.
	leastGrowth = 5
)

// BeyondCapacity reports whether the offered rate exceeds the capacity, and returns the served
// rate, which is then the capacity. It assumes that stretches of a queue that is never empty vary
// independently. By simulation (package judge), it calls at most 1 % of queues at 95 % of their
// capacity overloaded; at 104 %, nearly all whose answers come evenly, and 8 in 10 with
// exponential service times, from 10,000 requests on; at 109 %, all.
func (b Backlog) BeyondCapacity() (served Interval, beyond bool, err error) {
	if len(b.ServedPerSecond) < leastStretches {
		return Interval{}, false, ErrTooFew
	}
	served, err = MeanInterval(b.ServedPerSecond, beyondConfidence)
	if err != nil {
		return Interval{}, false, err
	}
	grown := b.Grew >= leastGrowth && b.Grew/2 > grownShare*b.Mean
	return served, grown && b.OfferedPerSecond > served.High, nil
}
