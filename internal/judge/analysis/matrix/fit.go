package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
)

// A Fit estimates one metric at all points of a run. Tables and ratios both come from it, so a ratio
// is the quotient of two figures of a table. Points with equal conditions are fitted together, over
// their trials' logarithms, with a random effect for each repeat: what the machine did in a repeat
// falls on all variants, so pairs cancel it, and a trial without a partner still counts.
type Fit struct {
	points map[*Point]fittedPoint
}

// A fittedPoint is a point's place in the fit of its group.
type fittedPoint struct {
	fit    *stats.BlockFit
	at     int
	trials int
	value  float64 // the figure
	blocks bool    // the trials took turns in blocks
}

// A pooledQuantile is a percentile whose figure is over the requests of all trials together. Only
// its interval comes from the trials' own percentiles.
type pooledQuantile struct {
	of func(Trial) times
	at float64
}

var pooledQuantiles = map[string]pooledQuantile{
	P99:        {responseTimes, 0.99},
	ServiceP99: {serviceTimes, 0.99},
	Handshake:  {func(t Trial) times { return t.handshake }, 0.5},
	FirstByte:  {func(t Trial) times { return t.firstByte }, 0.5},
}

// usualSpread is the assumed spread of repeats if a run cannot show it.
const usualSpread = 1

// exactDigits is the number of digits that are not lost by taking logarithms.
const exactDigits = 12

// NewFit fits a metric of [Metrics].
func NewFit(points []*Point, metric string) *Fit {
	f := fitMetric(lists.GroupBy(points, (*Point).Conditions), Metrics[metric])
	if pool, is := pooledQuantiles[metric]; is {
		for p, fitted := range f.points {
			if fitted.value = pool.figure(having(p.MeasuredTrials(), Metrics[metric])); fitted.value > 0 {
				f.points[p] = fitted
			} else {
				delete(f.points, p)
			}
		}
	}
	return f
}

// figure returns the percentile over all requests. It returns NaN if a trial has too few requests
// for a percentile of its own, because the interval needs one.
func (q pooledQuantile) figure(trials []Trial) float64 {
	timed := Filter(trials, func(t Trial) bool { return q.of(t).count > 0 })
	if len(timed) == 0 || slices.ContainsFunc(timed, func(t Trial) bool { return math.IsNaN(q.of(t).quantile(q.at)) }) {
		return math.NaN()
	}
	if all := (PooledTimes{trials: timed, of: q.of}); all.hasOnlyPercentiles() {
		return all.combineReported(func(t times) float64 { return t.quantile(q.at) }).Value
	}
	return stats.MergeCounts(lists.Map(timed, func(t Trial) stats.Counts { return q.of(t).counts })...).Quantile(q.at)
}

// FitTogether fits a metric of [Metrics] at points that form one group, whatever their conditions.
func FitTogether(points []*Point, metric string) *Fit {
	return fitMetric([][]*Point{points}, Metrics[metric])
}

// fitMetric fits a metric at the points where it is known and always positive.
func fitMetric(together [][]*Point, of Metric) *Fit {
	type group struct {
		points   []*Point
		observed []stats.Observation
		known    [][]Trial
	}
	var groups []group
	var spreads []float64
	for _, same := range together {
		var g group
		for _, p := range same {
			known := having(p.MeasuredTrials(), of)
			if len(known) == 0 || !ArePositive(Values(known, of)) {
				continue
			}
			for _, t := range known {
				g.observed = append(g.observed, stats.Observation{Variant: len(g.points), Block: t.Repeat, Log: math.Log(of(t))})
			}
			g.points, g.known = append(g.points, p), append(g.known, known)
		}
		if len(g.points) > 0 {
			groups = append(groups, g)
			if spread := stats.BlockSpread(len(g.points), g.observed); !math.IsNaN(spread) {
				spreads = append(spreads, spread)
			}
		}
	}
	spread := float64(usualSpread)
	if len(spreads) > 0 {
		spread = stats.Median(spreads)
	}
	f := &Fit{points: map[*Point]fittedPoint{}}
	for _, g := range groups {
		fit := stats.FitBlocks(len(g.points), g.observed, spread)
		for i, p := range g.points {
			f.points[p] = fittedPoint{fit, i, len(g.known[i]), roundToDigits(math.Exp(fit.Means[i]), exactDigits), g.known[i][0].Block != 0}
		}
	}
	return f
}

// Estimate returns the logarithm of a point's figure, over its trials. It reports whether there are
// enough trials for an interval.
func (f *Fit) Estimate(p *Point) (e stats.Contrast, enough bool) {
	one, known := f.points[p]
	if !known {
		return stats.Contrast{}, false
	}
	weights := make([]float64, len(one.fit.Means))
	weights[one.at] = 1
	e = one.fit.Contrast(weights)
	e.Trials = one.trials
	return e, one.trials >= LeastTrials
}

// Trials returns the number of a point's trials with the metric.
func (f *Fit) Trials(p *Point) int { return f.points[p].trials }

// Has reports whether the metric is known at a point.
func (f *Fit) Has(p *Point) bool { return f.points[p].fit != nil }

// CountPairs counts the repeats in which both points have a metric.
func CountPairs(a, b *Point, of Metric) (pairs int) {
	repeats := map[int]bool{}
	for _, t := range having(b.Trials, of) {
		repeats[t.Repeat] = true
	}
	return len(Filter(having(a.Trials, of), func(t Trial) bool { return repeats[t.Repeat] }))
}

// Figure returns the metric at a point, or nil if it is not known there.
func (f *Fit) Figure(p *Point) *Figure {
	if !f.Has(p) {
		return nil
	}
	figure := &Figure{Value: f.points[p].value}
	if e, enough := f.Estimate(p); enough {
		figure.Interval = intervalOf(e.LogRatio, p.Level, figure.Value)
	}
	return figure
}

// intervalOf returns the interval by Student's t, stretched to contain the value.
func intervalOf(e stats.LogRatio, at Level, value float64) *Interval {
	i := e.Interval(at.Confidence())
	if math.IsNaN(i.Low) || math.IsNaN(i.High) {
		return nil
	}
	return &Interval{Low: min(i.Low, value), High: max(i.High, value), Confidence: Confidence}
}

// A Ratio is a point's figure divided by another point's figure.
type Ratio struct {
	Value    float64        // quotient of the two figures
	Estimate stats.Contrast // its logarithm, over the trials
	Enough   bool           // enough trials for a verdict
	Level    Level
	InBlocks bool // the trials took turns in blocks
}

// Ratio divides a's figure by b's. It returns false if one of them is not known.
func (f *Fit) Ratio(a, b *Point) (Ratio, bool) { return RatioOfRuns(f, a, f, b) }

// RatioOfRuns divides a figure of a later run by a figure of an earlier run. The trials of two runs,
// or of two groups of a run, did not alternate, so they are independent.
func RatioOfRuns(later *Fit, now *Point, earlier *Fit, before *Point) (Ratio, bool) {
	a, b := later.points[now], earlier.points[before]
	if a.fit == nil || b.fit == nil {
		return Ratio{Value: math.NaN()}, false
	}
	r := Ratio{Value: a.value / b.value, Level: Stricter(now.Level, before.Level), InBlocks: a.blocks && b.blocks}
	if a.fit == b.fit {
		r.Estimate = a.fit.Difference(a.at, b.at)
	} else {
		r.Estimate = independent(later, now, earlier, before)
	}
	r.Enough = min(a.trials, b.trials) >= LeastTrials && r.Estimate.Freedom >= 1
	return r, true
}

// independent estimates the difference of two figures from different groups. Its degrees of freedom
// are those of the smaller side, which is never more than Welch's.
func independent(later *Fit, now *Point, earlier *Fit, before *Point) stats.Contrast {
	a, _ := later.Estimate(now)
	b, _ := earlier.Estimate(before)
	return stats.Contrast{
		LogRatio: stats.LogRatio{Mean: a.Mean - b.Mean, StandardError: math.Hypot(a.StandardError, b.StandardError), Freedom: min(a.Freedom, b.Freedom)},
		Unit:     2 / float64(min(a.Trials, b.Trials)),
	}
}

// Figure returns the ratio as a figure, with an interval of its own trials.
func (r Ratio) Figure() Figure {
	f := Figure{Value: r.Value}
	if r.Enough {
		f.Interval = intervalOf(r.Estimate.LogRatio, r.Level, r.Value)
	}
	return f
}

// Logs returns the estimate of a weighted sum of the logarithms of several points of one group. It
// returns false if one of them has too few trials.
func (f *Fit) Logs(points []*Point, weights []float64) (e stats.Contrast, known bool) {
	var fit *stats.BlockFit
	var all []float64
	for i, p := range points {
		one := f.points[p]
		if one.fit == nil || one.trials < LeastTrials || fit != nil && one.fit != fit {
			return stats.Contrast{}, false
		}
		if fit = one.fit; all == nil {
			all = make([]float64, len(fit.Means))
		}
		all[one.at] += weights[i]
	}
	e = fit.Contrast(all)
	return e, e.Freedom >= 1
}

// cellFits holds the fits of the figures whose ratios are printed, by metric.
type cellFits map[string]*Fit

// keptMetric is the metric of the rate that a search kept.
const keptMetric = "kept"

func newCellFits(points []*Point) cellFits {
	fits := cellFits{keptMetric: fitMetric(lists.GroupBy(points, (*Point).Conditions), keptRate)}
	for _, name := range []string{Mean, ServiceMean, Throughput, CPU, clientCPU, serverCPU, ServerPeak} {
		fits[name] = NewFit(points, name)
	}
	return fits
}

// setFits replaces the figures whose ratios are printed. Times that are only shown keep no interval.
func (c *Cell) setFits(p *Point, fits cellFits) {
	figure := func(metric string) *Figure { return fits[metric].Figure(p) }
	set(&c.Throughput, figure(Throughput))
	set(&c.Service.Mean, figure(ServiceMean))
	if c.Response != nil {
		set(&c.Response.Mean, figure(Mean))
	}
	if c.RefusesTimes() {
		c.Throughput.Interval, c.Service.Mean.Interval = nil, nil
		if c.Response != nil {
			c.Response.Mean.Interval = nil
		}
	}
	if c.Search != nil {
		set(&c.Search.Kept, figure(keptMetric))
	}
	peak := c.Server.Peak
	if everyTrial(p.MeasuredTrials(), func(t Trial) bool { return t.Server.OwnBytes != nil }) {
		peak = c.Server.Own
	}
	set(peak, figure(ServerPeak))
	set(c.ClientCPU, figure(clientCPU))
	set(c.ServerCPU, figure(serverCPU))
	if both := figure(CPU); both != nil && c.ClientCPU != nil && c.ServerCPU != nil {
		// The two ends' figures add up to the figure that is compared.
		factor := both.Value / c.BothCPU().Value
		c.ClientCPU, c.ServerCPU = c.ClientCPU.times(factor), c.ServerCPU.times(factor)
	}
}

func set(into, figure *Figure) {
	if into != nil && figure != nil {
		*into = *figure
	}
}

func (f *Figure) times(factor float64) *Figure {
	scaled := &Figure{Value: f.Value * factor}
	if i := f.Interval; i != nil {
		scaled.Interval = &Interval{Low: i.Low * factor, High: i.High * factor, Confidence: i.Confidence}
	}
	return scaled
}
