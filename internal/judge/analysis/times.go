package analysis

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// times is the distribution of one trial's times, in microseconds.
type times struct {
	count     int64
	mean, max float64
	// counts keeps what occurred, not the histogram: decoded that is 216 KiB. It is
	// empty where another program's client told the totals alone.
	counts stats.Counts
	// told are the percentiles that another program computed, where there are no counts.
	told []latency.Percentile
}

func readTimes(from *latency.Distribution) (times, error) {
	if from == nil || from.Count == 0 {
		return times{}, nil
	}
	t := times{count: from.Count, mean: float64(from.Sum) / float64(from.Count) / 1e3, max: float64(from.Max) / 1e3}
	if from.OnlyTotals() {
		t.told = from.Percentiles
		return t, nil
	}
	histogram, err := from.Decode()
	if err != nil {
		return times{}, err
	}
	for duration, count := range histogram.Counts() {
		t.counts = append(t.counts, stats.Count{Value: float64(duration) / 1e3, Count: count})
	}
	return t, nil
}

// quantile is NaN where too few requests lie beyond it.
func (t times) quantile(q float64) float64 {
	if len(t.told) > 0 {
		return t.toldQuantile(q)
	}
	return knownQuantile(t.counts, q)
}

// tail is how many times longer the slowest hundredth takes than the median.
func (t times) tail() float64 {
	if len(t.told) > 0 {
		return t.quantile(0.99) / t.quantile(0.5)
	}
	return tailOf(t.counts)
}

func knownQuantile(counts stats.Counts, q float64) float64 {
	if counts.Total() < stats.LeastCount(q) {
		return math.NaN()
	}
	return counts.Quantile(q)
}

func tailOf(counts stats.Counts) float64 {
	return knownQuantile(counts, 0.99) / counts.Quantile(0.5)
}

// pooled are one kind of times of several trials together.
type pooled struct {
	*stats.Pool
	trials []trial
	of     func(trial) times
}

// isTold reports whether a trial has another program's percentiles in place of counts: those
// of several trials cannot be put together into one.
func (p pooled) isTold() bool {
	return slices.ContainsFunc(p.trials, func(t trial) bool { return len(p.of(t).told) > 0 })
}

func pool(trials []trial, of func(trial) times) pooled {
	counts := make([]stats.Counts, len(trials))
	for i, t := range trials {
		counts[i] = of(t).counts
	}
	return pooled{stats.NewPool(counts...), trials, of}
}

// latencies are the percentiles of all trials together. The mean is the median of the
// trials', as other figures are. The maximum has no interval: it grows with the number
// of trials, so there is no true value to bound.
func (p pooled) latencies() Latencies {
	all := Latencies{Mean: over(p.trials, func(t trial) float64 { return p.of(t).mean })}
	for _, t := range p.trials {
		all.Max.Value = max(all.Max.Value, p.of(t).max)
	}
	into := reflect.ValueOf(&all).Elem()
	for _, q := range Quantiles {
		if p.isTold() {
			into.FieldByIndex(q.Index).Set(reflect.ValueOf(p.overTold(func(t times) float64 { return t.quantile(q.At) })))
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

// figure is one that the requests beyond a quantile decide. It has no interval where
// those of a minority of trials do.
func (p pooled) figure(quantile float64, of func(stats.Counts) float64) (Figure, *stats.Stall) {
	f := Figure{Value: of(p.All)}
	if math.IsNaN(f.Value) {
		return f, nil
	}
	if stall := p.Stall(quantile); stall != nil {
		return f, stall
	}
	if i, err := p.Interval(of, levelFor(p.trials).confidence()); err == nil {
		f.Interval = estimated(stated(i)).Interval
	}
	return f, nil
}

// tail is P99 over P50.
func (p pooled) tail() Figure {
	if p.isTold() {
		return p.overTold(times.tail)
	}
	f, _ := p.figure(0.99, tailOf)
	return f
}

// Stall is a minority of a cell's trials whose slowest requests decide a percentile,
// which has no interval then: so few trials do not tell how frequent stalls are.
type Stall struct {
	Percentile string  `json:"percentile" jsonschema:"enum=p90,enum=p95,enum=p99,enum=p999,enum=p9999"`
	Repeats    []int   `json:"repeats"`    // of the trials that stalled
	Trials     int     `json:"trials"`     // of all, stalled or not
	Longest    float64 `json:"longest_us"` // request of a stalled trial
	Without    float64 `json:"without_us"` // the percentile of the other trials
}

func (p pooled) name(q Quantile, found *stats.Stall) Stall {
	s := Stall{Percentile: q.Tag.Get("json"), Trials: len(p.trials), Longest: found.Longest, Without: found.Without}
	for _, i := range found.Trials {
		s.Repeats = append(s.Repeats, p.trials[i].Repeat)
	}
	return s
}

// stallFinding says which trials stalled; it is empty where none did.
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

func (s Stall) label() string {
	i := slices.IndexFunc(Quantiles, func(q Quantile) bool { return q.Tag.Get("json") == s.Percentile })
	return Quantiles[i].Tag.Get("label")
}

func numbers(all []int) string { return strings.Trim(fmt.Sprint(all), "[]") }

// curve gives the percentiles 0, 10, … 90, 91, … 99, 99.1 and so on, nine to each further
// nine of the page's axis, as far as enough requests lie beyond; and the maximum.
func (p pooled) curve() []CurvePoint {
	if p.isTold() {
		return p.toldCurve()
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
	densitySteps    = 12   // in a doubling of the time: narrower ones would show the recorder's
	densityRequests = 1000 // with fewer, what is seen is chance
	densityEnds     = 5e-4 // of the requests at either end are left out: a few would stretch the picture
)

// density is the share of requests in each step of the response time, all steps equally
// wide in its logarithm and the same in every cell.
func (p pooled) density() []CurvePoint {
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
