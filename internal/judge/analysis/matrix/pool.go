package matrix

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// A PooledTimes holds one kind of times, such as response times, of several trials together.
type PooledTimes struct {
	*stats.Pool
	trials []Trial
	of     func(Trial) times
}

// hasOnlyPercentiles reports whether a trial has only percentiles of another program. Such
// percentiles cannot be pooled over trials.
func (p PooledTimes) hasOnlyPercentiles() bool {
	return slices.ContainsFunc(p.trials, func(t Trial) bool { return len(p.of(t).reported) > 0 })
}

func poolTimes(trials []Trial, of func(Trial) times) PooledTimes {
	counts := make([]stats.Counts, len(trials))
	for i, t := range trials {
		counts[i] = of(t).counts
	}
	return PooledTimes{stats.NewPool(counts...), trials, of}
}

// ServiceTimes returns the trials' times from the actual send of a call to its answer.
func (p *Point) ServiceTimes() PooledTimes {
	return poolTimes(p.TrialsWith(record.Times), serviceTimes)
}

// ResponseTimes returns the trials' times from the intended send of a call to its answer.
func (p *Point) ResponseTimes() PooledTimes {
	return poolTimes(p.TrialsWith(record.Times), responseTimes)
}

// Latencies returns the percentiles over all trials' requests. The mean is the median of the
// trials' means. The maximum has no interval, because it grows with the number of trials.
func (p PooledTimes) Latencies() Latencies {
	all := Latencies{Mean: FigureOver(p.trials, func(t Trial) float64 { return p.of(t).mean })}
	for _, t := range p.trials {
		all.Max.Value = max(all.Max.Value, p.of(t).max)
	}
	into := reflect.ValueOf(&all).Elem()
	for _, q := range Quantiles {
		if p.hasOnlyPercentiles() {
			into.FieldByIndex(q.Index).Set(reflect.ValueOf(p.combineReported(func(t times) float64 { return t.quantile(q.At) })))
			continue
		}
		one, stall := p.tailFigure(q.At, func(c stats.Counts) float64 { return knownQuantile(c, q.At) })
		into.FieldByIndex(q.Index).Set(reflect.ValueOf(one))
		if stall != nil {
			all.Stalls = append(all.Stalls, p.newStall(q, stall))
		}
	}
	return all
}

// tailFigure returns a percentile or tail ratio, without an interval if stalled trials determine
// it.
func (p PooledTimes) tailFigure(quantile float64, of func(stats.Counts) float64) (Figure, *stats.Stall) {
	f := Figure{Value: of(p.All)}
	if math.IsNaN(f.Value) {
		return f, nil
	}
	if stall := p.Stall(quantile); stall != nil {
		return f, stall
	}
	if i, err := p.Interval(of, levelFor(p.trials).Confidence()); err == nil {
		f.Interval = FigureOf(i).Interval
	}
	return shown(f, p.trials), nil
}

// Tail returns P99 over P50.
func (p PooledTimes) Tail() Figure {
	if p.hasOnlyPercentiles() {
		return p.combineReported(times.tail)
	}
	f, _ := p.tailFigure(0.99, tailRatio)
	return f
}

func (p PooledTimes) newStall(q Quantile, found *stats.Stall) Stall {
	s := Stall{Percentile: q.Tag.Get("json"), Trials: len(p.trials), Longest: found.Longest, Without: found.Without}
	for _, i := range found.Trials {
		s.Repeats = append(s.Repeats, p.trials[i].Repeat)
	}
	return s
}

// stallFindings names the trials that stalled. It returns nil if no trial stalled.
func (l *Latencies) stallFindings() []Finding {
	if len(l.Stalls) == 0 {
		return nil
	}
	var decided []string
	for _, s := range l.Stalls {
		decided = append(decided, s.label())
	}
	first := l.Stalls[0]
	return []Finding{{
		Name: "stalls", Level: record.Warning, Trials: len(first.Repeats),
		Detail: fmt.Sprintf("%d of %d trials stalled for up to %s (repeats: %s), so %s has no interval; %s without these trials is %s",
			len(first.Repeats), first.Trials, units.Time(first.Longest*1e3), strings.Trim(fmt.Sprint(first.Repeats), "[]"), strings.Join(decided, ", "), first.label(), units.Time(first.Without*1e3)),
	}}
}

// curve returns the percentiles 0, 10, … 90, 91, … 99, 99.1 and so on, and the maximum. It omits
// percentiles beyond which too few requests lie.
func (p PooledTimes) curve() []CurvePoint {
	if p.hasOnlyPercentiles() {
		return p.reportedCurve()
	}
	total := p.All.Total()
	if total == 0 {
		return nil
	}
	var points []CurvePoint
	for share := 1.0; stats.LeastCountForQuantile(1-share) <= total; share /= 10 {
		for tenths := 10.0; tenths > 1; tenths-- {
			if q := 1 - share*tenths/10; stats.LeastCountForQuantile(q) <= total {
				points = append(points, CurvePoint{q, p.All.Quantile(q)})
			}
		}
	}
	return append(points, CurvePoint{1, p.All[len(p.All)-1].Value})
}

const (
	densitySteps    = 12   // steps per doubling of the time; more would show the histogram's own steps
	densityRequests = 1000 // least number of requests; a curve of fewer would show noise
	densityEnds     = 5e-4 // share of the requests left out at each end, because outliers would widen the chart
)

// density returns the share of requests in each step of the response time. The steps have equal
// width on a logarithmic axis, and are the same in every cell.
func (p PooledTimes) density() []CurvePoint {
	total := p.All.Total()
	if total < densityRequests {
		return nil
	}
	stepOf := func(us float64) int { return int(math.Floor(math.Log2(us) * densitySteps)) }
	first, last := p.All.Quantile(densityEnds), p.All.Quantile(1-densityEnds)
	if !(first > 0) {
		return nil
	}
	from := stepOf(first)
	points := make([]CurvePoint, stepOf(last)-from+1)
	for i := range points {
		points[i][0] = roundToFourDigits(math.Exp2((float64(from+i) + 0.5) / densitySteps))
	}
	for _, one := range p.All {
		if one.Value >= first && one.Value <= last {
			points[stepOf(one.Value)-from][1] += float64(one.Count) / float64(total)
		}
	}
	for i := range points {
		points[i][1] = roundToFourDigits(points[i][1])
	}
	return points
}

// spread counts the requests in equal steps of the response time's logarithm, from the fastest
// request to the slowest.
func (p PooledTimes) spread() []SpreadStep {
	if p.All.Total() == 0 || len(p.All) < 2 || p.All[0].Value <= 0 {
		return nil
	}
	fastest := p.All[0].Value
	width := math.Log(p.All[len(p.All)-1].Value/fastest) / spreadSteps
	steps := make([]SpreadStep, spreadSteps)
	for i := range steps {
		steps[i].US = roundToFourDigits(fastest * math.Exp(width*(float64(i)+0.5)))
		steps[i].Until = fastest * math.Exp(width*float64(i+1))
	}
	for _, one := range p.All {
		i := min(int(math.Log(one.Value/fastest)/width), spreadSteps-1)
		steps[i].Requests += one.Count
	}
	return steps
}

// spreadSteps is the number of steps of a spread. A few hundred requests are enough to fill the
// steps.
const spreadSteps = 40

// A SpreadStep counts requests with similar times.
type SpreadStep struct {
	US       float64 `json:"us"` // middle of the step, in microseconds
	Requests int64   `json:"requests"`
	Until    float64 `json:"-"` // end of the step, in microseconds
}

// combineReported returns the median of a reported percentile, or NaN if any trial lacks it.
func (p PooledTimes) combineReported(of func(times) float64) Figure {
	each := func(t Trial) float64 { return of(p.of(t)) }
	if len(KnownValues(p.trials, each)) < len(p.trials) {
		return Figure{Value: math.NaN()}
	}
	return FigureOver(p.trials, each)
}

// reportedCurve returns the percentiles that every trial reports, and the maximum.
func (p PooledTimes) reportedCurve() []CurvePoint {
	var points []CurvePoint
	slowest := 0.0
	for _, t := range p.trials {
		slowest = max(slowest, p.of(t).max)
	}
	for _, percentile := range p.of(p.trials[0]).reported {
		at := p.combineReported(func(t times) float64 { return t.quantile(percentile.Quantile) })
		if percentile.Quantile < 1 && !math.IsNaN(at.Value) {
			points = append(points, CurvePoint{percentile.Quantile, at.Value})
		}
	}
	return append(points, CurvePoint{1, slowest})
}

// roundToFourDigits rounds a figure to four digits, because a page holds thousands of such points.
func roundToFourDigits(value float64) float64 { return roundToDigits(value, 4) }

func roundToDigits(value float64, digits int) float64 {
	if value == 0 {
		return 0
	}
	unit := math.Pow(10, float64(digits)-1-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*unit) / unit
}
