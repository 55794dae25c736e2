package matrix

import (
	"math"
	"reflect"
	"strconv"
)

// Latencies holds a distribution of times, in microseconds. A percentile is taken over all
// trials' requests together. It is unknown if fewer than ten requests are beyond it.
type Latencies struct {
	Mean  Figure `json:"mean" csv:"mean" label:"Mean" column:"mean,9"`
	P50   Figure `json:"p50" csv:"p50" quantile:"0.5" label:"P50" column:"P50,1" benchstat:"p50-ns"`
	P90   Figure `json:"p90" csv:"p90" quantile:"0.9" label:"P90" column:"P90" benchstat:"p90-ns"`
	P95   Figure `json:"p95" csv:"p95" quantile:"0.95" label:"P95" column:"P95"`
	P99   Figure `json:"p99" csv:"p99" quantile:"0.99" label:"P99" column:"P99,4" benchstat:"p99-ns"`
	P999  Figure `json:"p999" csv:"p999" quantile:"0.999" label:"P99.9" column:"P99.9" benchstat:"p999-ns"`
	P9999 Figure `json:"p9999" csv:"p9999" quantile:"0.9999" label:"P99.99" column:"P99.99"`
	Max   Figure `json:"max" csv:"max" label:"Max" column:"max"`

	Stalls []Stall `json:"stalls,omitempty"` // absent if no minority of trials decides a percentile
}

// A Quantile is a field of [Latencies] that holds a quantile.
type Quantile struct {
	reflect.StructField
	At float64
}

// Of returns the figure in the field.
func (q Quantile) Of(l *Latencies) *Figure {
	return reflect.ValueOf(l).Elem().FieldByIndex(q.Index).Addr().Interface().(*Figure)
}

// Quantiles lists the fields of [Latencies] that are one, by their tags.
var Quantiles = func() []Quantile {
	var all []Quantile
	for field := range reflect.TypeFor[Latencies]().Fields() {
		if at, err := strconv.ParseFloat(field.Tag.Get("quantile"), 64); err == nil {
			all = append(all, Quantile{StructField: field, At: at})
		}
	}
	return all
}()

// A CurvePoint is one point of a percentile curve: the quantile, and the microseconds at it.
// In a density, it is the microseconds in the middle of a step, and the share of requests in
// it.
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

// A CallTimes holds the times of a part of a cell's calls.
type CallTimes struct {
	Name       string // of the calls; empty for messages
	Requests   int64
	Failed     int64
	Throughput Figure    // successful answers per second
	Times      Latencies // from when a call was due
}
