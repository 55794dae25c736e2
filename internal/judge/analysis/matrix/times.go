package matrix

import (
	"math"
	"reflect"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
)

// times holds the distribution of one trial's times, in microseconds.
type times struct {
	count     int64
	mean, max float64
	// counts holds the histogram's non-empty buckets, because a whole histogram takes 216 KiB. It is
	// empty if another program reported only totals.
	counts stats.Counts
	// reported holds the percentiles that another program computed, if there are no counts.
	reported []latency.Percentile
}

func readTimes(from *latency.Distribution) (times, error) {
	if from == nil || from.Count == 0 {
		return times{}, nil
	}
	t := times{count: from.Count, mean: float64(from.Sum) / float64(from.Count) / 1e3, max: float64(from.Max) / 1e3}
	if from.OnlyTotals() {
		t.reported = from.Percentiles
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

// quantile returns a quantile of the times, or NaN if too few requests lie beyond it.
func (t times) quantile(q float64) float64 {
	if len(t.reported) > 0 {
		return t.reportedQuantile(q)
	}
	return knownQuantile(t.counts, q)
}

func (t times) tail() float64 {
	if len(t.reported) > 0 {
		return t.quantile(0.99) / t.quantile(0.5)
	}
	return tailRatio(t.counts)
}

func knownQuantile(counts stats.Counts, q float64) float64 {
	if counts.Total() < stats.LeastCountForQuantile(q) {
		return math.NaN()
	}
	return counts.Quantile(q)
}

func tailRatio(counts stats.Counts) float64 {
	return knownQuantile(counts, 0.99) / counts.Quantile(0.5)
}

// reportedQuantile returns a quantile that another program reported. It returns NaN if the program
// did not report it, or if too few requests lie beyond it.
func (t times) reportedQuantile(q float64) float64 {
	i := slices.IndexFunc(t.reported, func(p latency.Percentile) bool { return math.Abs(p.Quantile-q) < quantileTolerance })
	if i < 0 || t.count < stats.LeastCountForQuantile(q) {
		return math.NaN()
	}
	return float64(t.reported[i].Duration) / 1e3
}

// quantileTolerance allows for rounding when quantiles are compared: 99.9 / 100 equals 0.999.
const quantileTolerance = 1e-9

// Latencies holds a distribution of times, in microseconds. Percentiles are over the requests of
// all trials together. A percentile is unknown if fewer than ten requests lie beyond it.
type Latencies struct {
	Mean  Figure `json:"mean" csv:"mean" label:"Mean" column:"mean,9"`
	P50   Figure `json:"p50" csv:"p50" quantile:"0.5" label:"P50" column:"P50,1" benchstat:"p50-ns"`
	P90   Figure `json:"p90" csv:"p90" quantile:"0.9" label:"P90" column:"P90" benchstat:"p90-ns"`
	P95   Figure `json:"p95" csv:"p95" quantile:"0.95" label:"P95" column:"P95"`
	P99   Figure `json:"p99" csv:"p99" quantile:"0.99" label:"P99" column:"P99,4" benchstat:"p99-ns"`
	P999  Figure `json:"p999" csv:"p999" quantile:"0.999" label:"P99.9" column:"P99.9" benchstat:"p999-ns"`
	P9999 Figure `json:"p9999" csv:"p9999" quantile:"0.9999" label:"P99.99" column:"P99.99"`
	Max   Figure `json:"max" csv:"max" label:"Max" column:"max"`

	Stalls []Stall `json:"stalls,omitempty"` // stalled trials that decide a percentile; absent if there are none
}

// A Stall names a few of a cell's trials whose slowest requests decide a percentile. The percentile
// has no interval, because a few trials do not show how often stalls happen.
type Stall struct {
	Percentile string  `json:"percentile" jsonschema:"enum=p90,enum=p95,enum=p99,enum=p999,enum=p9999"`
	Repeats    []int   `json:"repeats"`    // repeats that stalled
	Trials     int     `json:"trials"`     // number of the cell's trials, stalled or not
	Longest    float64 `json:"longest_us"` // time of the slowest request in the stalled trials
	Without    float64 `json:"without_us"` // the percentile over the trials that did not stall
}

func (s Stall) label() string {
	i := slices.IndexFunc(Quantiles, func(q Quantile) bool { return q.Tag.Get("json") == s.Percentile })
	return Quantiles[i].Tag.Get("label")
}

// A Quantile describes a field of [Latencies] that holds a quantile.
type Quantile struct {
	reflect.StructField
	At float64
}

// FigureIn returns the figure in the field.
func (q Quantile) FigureIn(l *Latencies) *Figure {
	return reflect.ValueOf(l).Elem().FieldByIndex(q.Index).Addr().Interface().(*Figure)
}

// Quantiles lists the fields of [Latencies] that have a quantile tag.
var Quantiles = func() []Quantile {
	var all []Quantile
	for field := range reflect.TypeFor[Latencies]().Fields() {
		if at, err := strconv.ParseFloat(field.Tag.Get("quantile"), 64); err == nil {
			all = append(all, Quantile{StructField: field, At: at})
		}
	}
	return all
}()

// A CurvePoint is a point of a chart. In a percentile curve it holds a quantile and its time in
// microseconds. In a density it holds a step's middle in microseconds and its share of requests.
type CurvePoint [2]float64

func unknownLatencies() *Latencies {
	l := &Latencies{}
	for _, field := range reflect.ValueOf(l).Elem().Fields() {
		if figure, is := field.Addr().Interface().(*Figure); is {
			figure.Value = math.NaN()
		}
	}
	return l
}

// A CallTimes holds the times of some of a cell's calls.
type CallTimes struct {
	Name       string    `json:"name"`            // name of the calls; empty for single messages
	Stage      int       `json:"stage,omitempty"` // number of the load's stage in which they were due, from 1; absent if they have a name
	Requests   int64     `json:"requests"`
	Failed     int64     `json:"failed"`
	Throughput Figure    `json:"throughput_rps"` // successful answers per second; of a stage, within its time
	Times      Latencies `json:"response_us"`    // response times, from the instant when a call was due
}
