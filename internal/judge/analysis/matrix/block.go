package matrix

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// AlignBlocks replaces the mean times and throughputs of trials that took turns by robust ones: the
// mean over rounds of what the trial's logarithm differs from the round's, without the most extreme
// tenth at either end. What other programs did in a round hit all trials alike, and cancels; what hit
// a single slice is left out. The level stays that of the plain figures, over the trials of a block.
func AlignBlocks(points []*Point) {
	blocks := map[int][]*Trial{}
	for _, p := range points {
		for i := range p.Trials {
			if t := &p.Trials[i]; t.Block != 0 && t.Failure == "" {
				blocks[t.Block] = append(blocks[t.Block], t)
			}
		}
	}
	for _, trials := range blocks {
		if len(trials) < 2 || slices.ContainsFunc(trials, func(t *Trial) bool { return len(t.Slices) != len(trials[0].Slices) }) {
			continue
		}
		for i, mean := range align(trials, responseOf, func(t *Trial) float64 { return t.response.mean }) {
			factor := mean / trials[i].response.mean
			trials[i].response.mean = mean
			trials[i].service.mean *= factor
		}
		for i, rate := range align(trials, func(s record.Slice) (sum, per float64) { return float64(s.Completed), float64(s.TookNS) },
			func(t *Trial) float64 { return t.ThroughputPerSecond() }) {
			trials[i].throughput = rate
		}
	}
}

// outlying is the share of rounds that align leaves out at either end.
const outlying = 0.1

// align returns the robust figures of a block's trials, or nil if the slices are too few. of returns
// a slice's figure as a quotient, and plain the figure of a whole trial.
func align(trials []*Trial, of func(record.Slice) (sum, per float64), plain func(*Trial) float64) []float64 {
	differences := pairDifferences(trials, of)
	if len(differences[0]) == 0 {
		return nil
	}
	level := 0.0 // logarithm of the trials' usual figure
	for i, t := range trials {
		level += (math.Log(plain(t)) - trimmedMean(differences[i])) / float64(len(trials))
	}
	if math.IsNaN(level) || math.IsInf(level, 0) {
		return nil
	}
	figures := make([]float64, len(trials))
	for i := range trials {
		figures[i] = math.Exp(level + trimmedMean(differences[i]))
	}
	return figures
}

// pairDifferences returns, for each trial of a block, how far the logarithm of its figure lies from
// the mean of all trials in each pair of mirrored rounds. Disturbed pairs are left out.
func pairDifferences(trials []*Trial, of func(record.Slice) (sum, per float64)) [][]float64 {
	differences := make([][]float64, len(trials))
	disturbed := disturbedRounds(trials)
	for round := 0; round+1 < len(trials[0].Slices); round += 2 {
		if disturbed[round] {
			continue
		}
		logs := make([]float64, len(trials))
		for i, t := range trials {
			sum, per := of(t.Slices[round])
			sum2, per2 := of(t.Slices[round+1])
			logs[i] = math.Log((sum + sum2) / (per + per2))
		}
		centre := stat.Mean(logs, nil)
		if math.IsNaN(centre) || math.IsInf(centre, 0) { // a slice without calls
			continue
		}
		for i, log := range logs {
			differences[i] = append(differences[i], log-centre)
		}
	}
	return differences
}

// A SliceScatter says how far the mean times of a block's trials lie from each other, as logarithms.
type SliceScatter struct {
	Means    []float64 // of each trial, from the mean of all trials
	Variance float64   // of a pair of mirrored slices; what the robust mean leaves out counts little
	Pairs    int
}

// NewSliceScatter returns the scatter of a block. It reports false if the block has too few slices, or
// a trial that failed.
func NewSliceScatter(block []*record.Record) (s SliceScatter, known bool) {
	var trials []*Trial
	for _, r := range block {
		if r.Failure != "" || len(r.Slices) != len(block[0].Slices) {
			return s, false
		}
		trials = append(trials, &Trial{Record: r})
	}
	for _, differences := range pairDifferences(trials, responseOf) {
		if s.Pairs = len(differences); s.Pairs < leastPairs {
			return s, false
		}
		s.Means = append(s.Means, trimmedMean(differences)) // sorts them
		cut := int(outlying * float64(s.Pairs))
		for i := range cut {
			differences[i], differences[s.Pairs-1-i] = differences[cut], differences[s.Pairs-1-cut]
		}
		kept := 1 - 2*float64(cut)/float64(s.Pairs)
		s.Variance += stat.Variance(differences, nil) / (kept * kept) / float64(len(block)) // Tukey and McLaughlin 1963
	}
	return s, true
}

// leastPairs is the least number of pairs of slices that show a scatter.
const leastPairs = 3

// responseOf returns a slice's mean time as a quotient.
func responseOf(s record.Slice) (sum, per float64) { return float64(s.SumNS), float64(s.Requests) }

const (
	// leastLost is the share of a slice that other programs may take from its trial's CPUs.
	leastLost = 0.05
	// usualLost bounds the share, as a multiple of the block's median.
	usualLost = 2
)

// disturbedRounds returns the first rounds of those mirrored pairs that other programs disturbed more
// than the others of the block. The rule looks only at the time that the sentinels saw taken from
// the CPUs, and leaves out all trials of a pair, so that it prefers no result.
func disturbedRounds(trials []*Trial) map[int]bool {
	lost := map[int]float64{}
	var all []float64
	for round := 0; round+1 < len(trials[0].Slices); round += 2 {
		for _, t := range trials {
			for _, s := range t.Slices[round : round+2] {
				lost[round] = max(lost[round], float64(s.LostNS)/float64(max(1, s.TookNS)))
			}
		}
		all = append(all, lost[round])
	}
	if len(all) == 0 {
		return nil
	}
	limit := max(leastLost, usualLost*stats.Median(all))
	disturbed := map[int]bool{}
	for round, share := range lost {
		disturbed[round] = share > limit
	}
	return disturbed
}

// trimmedMean returns the mean without the outlying share at either end. It sorts the values.
func trimmedMean(values []float64) float64 {
	slices.Sort(values)
	cut := int(outlying * float64(len(values)))
	return stat.Mean(values[cut:len(values)-cut], nil)
}
