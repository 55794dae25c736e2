package analysis

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// An AnchorChange says how much slower or faster the machine itself was in the later run, by the
// anchor that both runs measured (record.AnchorReading).
type AnchorChange struct {
	Metric     string        `json:"metric" jsonschema:"enum=mean,enum=cpu"`
	Before     float64       `json:"before"`     // the earlier run's figure, in microseconds
	After      float64       `json:"after"`      // the later run's figure, in the same unit
	Ratio      matrix.Figure `json:"ratio"`      // the later figure divided by the earlier figure
	Comparable bool          `json:"comparable"` // false if the machine changed too much to compare times

	// spread is the half width of the spread between the runs, as a logarithm. Its standard deviation is
	// the change, taken as one draw, or the change's standard error if that is larger.
	spread float64
}

const (
	// leastReadings is the least number of an anchor's readings in each run.
	leastReadings = 3
	// mostMachineChange is the largest change of the machine with which times are compared. A larger
	// change is not corrected by the anchor: a busy machine slows different stacks by different
	// factors.
	mostMachineChange = 0.10
)

// newAnchorChange compares the anchors of two runs. It returns nil if one of the runs lacks one.
func newAnchorChange(metric string, before, after []record.AnchorReading) *AnchorChange {
	old, now := anchorLogs(before, metric), anchorLogs(after, metric)
	m, n := float64(len(old)), float64(len(now))
	if min(m, n) < leastReadings {
		return nil
	}
	oldMean, oldVariance := stat.MeanVariance(old, nil)
	nowMean, nowVariance := stat.MeanVariance(now, nil)
	freedom := m + n - 2
	variance := ((m-1)*oldVariance + (n-1)*nowVariance) / freedom
	change, deviation := nowMean-oldMean, math.Sqrt(variance*(1/m+1/n))
	half := stats.NewStudent(freedom).Quantile((1+matrix.Confidence)/2) * deviation
	return &AnchorChange{
		Metric: metric, Before: math.Exp(oldMean), After: math.Exp(nowMean),
		Ratio:      matrix.FigureOfLogs(stats.Interval{Estimate: change, Low: change - half, High: change + half, Confidence: matrix.Confidence}),
		Comparable: math.Abs(change) <= math.Log(1+mostMachineChange),
		spread:     normalQuantile * max(math.Abs(change), deviation),
	}
}

// anchorLogs returns the logarithms of an anchor's readings in microseconds.
func anchorLogs(readings []record.AnchorReading, metric string) (logs []float64) {
	for _, r := range readings {
		value := r.MeanNS
		if metric == matrix.CPU {
			value = r.CPUNS
		}
		if value > 0 {
			logs = append(logs, math.Log(value/1e3))
		}
	}
	return logs
}

// normalQuantile is the half width of a 95 % interval in standard deviations.
var normalQuantile = distuv.UnitNormal.Quantile((1 + matrix.Confidence) / 2)

// Describe says how much the machine itself changed.
func (c *AnchorChange) Describe() string {
	was, took := "was %.1f times slower", "took"
	if c.Metric == matrix.CPU {
		was, took = "used %.1f times as much CPU time", "used"
	}
	show := func(micros float64) string { return units.Number(micros) + "µs" }
	slower, factor := "earlier", 1/c.Ratio.Value
	if factor < 1 {
		slower, factor = "later", 1/factor
	}
	if !c.Comparable {
		return fmt.Sprintf("the machine itself "+was+" in the %s run: its anchor %s %s in the earlier run, and %s in the later",
			factor, slower, took, show(c.Before), show(c.After))
	}
	i := c.Ratio.Interval
	return fmt.Sprintf("the machine itself changed by %+.0f %% (%+.0f %% to %+.0f %%) by its anchor, and every interval includes that",
		100*(c.Ratio.Value-1), 100*(i.Low-1), 100*(i.High-1))
}

// whyIncomparable says why times of the runs cannot be compared. It returns "" if they can.
func whyIncomparable(change *AnchorChange, before, after *Summary) string {
	switch {
	case change != nil && change.Comparable:
		return ""
	case change != nil:
		return change.Describe() + ": measure both runs on a quiet machine"
	}
	lacks := map[[2]bool]string{
		{true, true}: "neither run has an anchor", {true, false}: "the earlier run has no anchor", {false, true}: "the later run has no anchor",
		{}: fmt.Sprintf("one of the runs has fewer than %d readings of its anchor", leastReadings),
	}[[2]bool{len(before.Anchor) == 0, len(after.Anchor) == 0}]
	return lacks + ", so the machine itself may have changed between the runs: measure both with this version, on one machine, with --repeat 3 or more"
}
