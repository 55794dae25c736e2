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

// A Pooled holds one kind of times of several trials.
type Pooled struct {
	*stats.Pool
	trials []Trial
	of     func(Trial) times
}

// isReported reports whether a trial has only another program's percentiles, not counts.
// Percentiles of several trials cannot be pooled.
func (p Pooled) isReported() bool {
	return slices.ContainsFunc(p.trials, func(t Trial) bool { return len(p.of(t).reported) > 0 })
}

// pool collects one kind of times of trials.
func pool(trials []Trial, of func(Trial) times) Pooled {
	counts := make([]stats.Counts, len(trials))
	for i, t := range trials {
		counts[i] = of(t).counts
	}
	return Pooled{stats.NewPool(counts...), trials, of}
}

// ServiceTimes returns the times of the valid trials from the actual send.
func (p *Point) ServiceTimes() Pooled { return pool(p.Valid(), serviceTimes) }

// ResponseTimes returns the times of the valid trials from the intended send.
func (p *Point) ResponseTimes() Pooled { return pool(p.Valid(), responseTimes) }

// Latencies returns the percentiles over all trials' requests. The mean is the median of the
// trials' means, as for other figures. The maximum has no interval: it grows with the number of
// trials, so there is no true value.
func (p Pooled) Latencies() Latencies {
	all := Latencies{Mean: Over(p.trials, func(t Trial) float64 { return p.of(t).mean })}
	for _, t := range p.trials {
		all.Max.Value = max(all.Max.Value, p.of(t).max)
	}
	into := reflect.ValueOf(&all).Elem()
	for _, q := range Quantiles {
		if p.isReported() {
			into.FieldByIndex(q.Index).Set(reflect.ValueOf(p.overReported(func(t times) float64 { return t.quantile(q.At) })))
			continue
		}
		one, stall := p.figure(q.At, func(c stats.Counts) float64 { return knownQuantile(c, q.At) })
		into.FieldByIndex(q.Index).Set(reflect.ValueOf(one))
		if stall != nil {
			all.Stalls = append(all.Stalls, p.name(q, stall))
		}
	}
	return all
}

// figure returns a figure of the tail, without an interval if a few stalled trials decide it.
func (p Pooled) figure(quantile float64, of func(stats.Counts) float64) (Figure, *stats.Stall) {
	f := Figure{Value: of(p.All)}
	if math.IsNaN(f.Value) {
		return f, nil
	}
	if stall := p.Stall(quantile); stall != nil {
		return f, stall
	}
	if i, err := p.Interval(of, levelFor(p.trials).Confidence()); err == nil {
		f.Interval = FigureOf(Stated(i)).Interval
	}
	return f, nil
}

// Tail returns P99 over P50.
func (p Pooled) Tail() Figure {
	if p.isReported() {
		return p.overReported(times.tail)
	}
	f, _ := p.figure(0.99, tailOf)
	return f
}

func (p Pooled) name(q Quantile, found *stats.Stall) Stall {
	s := Stall{Percentile: q.Tag.Get("json"), Trials: len(p.trials), Longest: found.Longest, Without: found.Without}
	for _, i := range found.Trials {
		s.Repeats = append(s.Repeats, p.trials[i].Repeat)
	}
	return s
}

// stallFinding names the trials that stalled. It is empty if none did.
func (l *Latencies) stallFinding() []Finding {
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
		Detail: fmt.Sprintf("%d of %d trials stalled, for up to %s (repeat %s): no interval for %s; %s of the others is %s",
			len(first.Repeats), first.Trials, units.Time(first.Longest*1e3), numbers(first.Repeats), strings.Join(decided, ", "), first.label(), units.Time(first.Without*1e3)),
	}}
}

func numbers(all []int) string { return strings.Trim(fmt.Sprint(all), "[]") }

// curve returns the percentiles 0, 10, … 90, 91, … 99, 99.1 and so on, nine for each further digit
// of the page's axis, as long as enough requests lie beyond, and the maximum.
func (p Pooled) curve() []CurvePoint {
	if p.isReported() {
		return p.reportedCurve()
	}
	total := p.All.Total()
	if total == 0 {
		return nil
	}
	var points []CurvePoint
	for share := 1.0; stats.LeastCount(1-share) <= total; share /= 10 {
		for tenths := 10.0; tenths > 1; tenths-- {
			if q := 1 - share*tenths/10; stats.LeastCount(q) <= total {
				points = append(points, CurvePoint{q, p.All.Quantile(q)})
			}
		}
	}
	return append(points, CurvePoint{1, p.All[len(p.All)-1].Value})
}

const (
	densitySteps    = 12   // steps per doubling of the time; narrower ones would show the recorder's own steps
	densityRequests = 1000 // fewer requests would show noise
	densityEnds     = 5e-4 // share of the requests left out at either end: outliers would widen the chart
)

// density returns the share of requests in each step of the response time. All steps have the same
// width in the logarithm, and are the same in every cell.
func (p Pooled) density() []CurvePoint {
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
		points[i][0] = short(math.Exp2((float64(from+i) + 0.5) / densitySteps))
	}
	for _, one := range p.All {
		if one.Value >= first && one.Value <= last {
			points[stepOf(one.Value)-from][1] += float64(one.Count) / float64(total)
		}
	}
	for i := range points {
		points[i][1] = short(points[i][1])
	}
	return points
}

// spread counts requests in steps of one factor, so that one stalled request stays visible.
func (p Pooled) spread() []SpreadStep {
	if p.All.Total() == 0 || len(p.All) < 2 || p.All[0].Value <= 0 {
		return nil
	}
	fastest := p.All[0].Value
	width := math.Log(p.All[len(p.All)-1].Value/fastest) / spreadSteps
	steps := make([]SpreadStep, spreadSteps)
	for i := range steps {
		steps[i].US = short(fastest * math.Exp(width*(float64(i)+0.5)))
		steps[i].Until = fastest * math.Exp(width*float64(i+1))
	}
	for _, one := range p.All {
		i := min(int(math.Log(one.Value/fastest)/width), spreadSteps-1)
		steps[i].Requests += one.Count
	}
	return steps
}

// spreadSteps is small enough for a few hundred requests to fill the steps.
const spreadSteps = 40

// A SpreadStep counts requests with similar times.
type SpreadStep struct {
	US       float64 `json:"us"` // middle of the step, in microseconds
	Requests int64   `json:"requests"`
	Until    float64 `json:"-"` // end of the step, in microseconds
}

// overReported is unknown if the figure is unknown in any trial.
func (p Pooled) overReported(of func(times) float64) Figure {
	each := func(t Trial) float64 { return of(p.of(t)) }
	if len(KnownValues(p.trials, each)) < len(p.trials) {
		return Figure{Value: math.NaN()}
	}
	return Over(p.trials, each)
}

// reportedCurve holds the percentiles that every trial has, and the maximum.
func (p Pooled) reportedCurve() []CurvePoint {
	var points []CurvePoint
	slowest := 0.0
	for _, t := range p.trials {
		slowest = max(slowest, p.of(t).max)
	}
	for _, percentile := range p.of(p.trials[0]).reported {
		at := p.overReported(func(t times) float64 { return t.quantile(percentile.Quantile) })
		if percentile.Quantile < 1 && !math.IsNaN(at.Value) {
			points = append(points, CurvePoint{percentile.Quantile, at.Value})
		}
	}
	return append(points, CurvePoint{1, slowest})
}

// short rounds a figure to four digits: a page draws thousands of these points.
func short(value float64) float64 {
	if value == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*unit) / unit
}
