package stats

import "math"

const (
	// mserBatch is the five of MSER-5 (White, Cobb and Spratt, 2000): means of
	// five values smooth the series without hiding its trend.
	mserBatch = 5

	// mserLeastBatches is the fewest batches that must remain behind a cut: the variance of a
	// few is small by accident.
	mserLeastBatches = 5
)

// MSER5 returns how much of a series to cut off as warm-up: the cut, in steps of five
// values, that minimises the standard error of the mean of the rest. The values are
// figures of equal intervals, in time order.
//
// The series is not settled when that cut lies in its last half, which is how
// the method shows a trend that goes on to the end, or when it is too short (50
// values) or holds something that is not a number. It assumes that a steady part,
// where there is one, is longer than the warm-up before it.
func MSER5(series []float64) (cut int, settled bool) {
	means := batchMeans(series)
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
func batchMeans(series []float64) []float64 {
	means := make([]float64, len(series)/mserBatch)
	for i := range means {
		for _, value := range series[i*mserBatch : (i+1)*mserBatch] {
			means[i] += value / mserBatch
		}
	}
	return means
}
