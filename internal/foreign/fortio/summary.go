package fortio

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign/summary"
)

// Summary is the format of fortio's JSON report.
var Summary = summary.Format{
	Tool: "fortio", Makes: "-json FILE",
	Is: func(o summary.Object) bool {
		return o.Has("RunType", "DurationHistogram", "RequestedQPS", "NumThreads")
	},
	Read: readSummary,
}

// A jsonReport holds the members of the file that are read: periodic.RunnerResults of fortio 1.65, with what
// its HTTP and gRPC runners add. Times are seconds, but for ActualDuration.
type jsonReport struct {
	RunType        string
	StartTime      time.Time
	RequestedQPS   string // a number, or max
	ActualDuration int64
	NumThreads     int
	Version        string
	NoCatchUp      bool
	Resolution     float64
	URL            string
	Destination    string           // of gRPC
	RetCodes       map[string]int64 // HTTP's, or gRPC's own

	DurationHistogram struct {
		Count         int64
		Min, Max, Avg float64
		Percentiles   []struct{ Percentile, Value float64 }
	}
	ErrorsDurationHistogram *struct{ Count int64 }
}

func readSummary(data []byte) (*summary.Result, error) {
	var report jsonReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	h := report.DurationHistogram
	r := &summary.Result{
		Version: report.Version, Target: report.Destination, Workload: report.RunType,
		Clients: report.NumThreads, Started: report.StartTime, Window: time.Duration(report.ActualDuration), Calls: h.Count,
		Times: summary.Totals(h.Count, h.Avg*1e9, summary.Nanoseconds(h.Min, time.Second), summary.Nanoseconds(h.Max, time.Second)),
	}
	if report.URL != "" {
		r.Target, r.Workload = summary.SplitURL(report.URL)
	}
	for _, p := range h.Percentiles {
		r.Times.Percentiles = append(r.Times.Percentiles, latency.Percentile{Quantile: p.Percentile / 100, Duration: summary.Nanoseconds(p.Value, time.Second)})
	}
	r.Times.Percentiles = summary.Sort(r.Times.Percentiles)
	r.Errors = report.errors()
	if report.RequestedQPS == "max" {
		r.Load.Model = "closed"
		r.Remarks = append(r.Remarks, summary.ClosedRemark("fortio"))
	} else {
		rate, err := strconv.ParseFloat(report.RequestedQPS, 64)
		if err != nil {
			return nil, fmt.Errorf("its RequestedQPS is %q", report.RequestedQPS)
		}
		r.Load = record.Load{Model: record.Paced, RatePerSecond: rate}
		r.Remarks = append(r.Remarks, summary.PacedRemark("fortio"))
		if !report.NoCatchUp {
			r.Remarks = append(r.Remarks, "after a stall fortio sent faster, to make up for calls that it had put off (no -nocatchup)")
		}
	}
	r.Remarks = append(r.Remarks, "fortio interpolates its percentiles within its own buckets, which are "+resolution(report.Resolution)+" wide at least")
	return r, nil
}

// resolution returns the width of the narrowest buckets as text. Files of gRPC runs do not have it.
func resolution(seconds float64) string {
	if seconds <= 0 {
		return "by default 1 ms"
	}
	return fmt.Sprintf("%g ms", seconds*1e3)
}

// errors returns the codes that fortio counts as errors. If the codes do not add up to fortio's
// number of errors, it returns that number alone.
func (f *jsonReport) errors() []record.ErrorCount {
	var all []record.ErrorCount
	sum := int64(0)
	for _, code := range slices.Sorted(maps.Keys(f.RetCodes)) {
		if isWell(code) {
			continue
		}
		all = append(all, record.ErrorCount{Code: code, Count: f.RetCodes[code], Example: "fortio's code " + code})
		sum += f.RetCodes[code]
	}
	counted := f.ErrorsDurationHistogram
	switch {
	case counted == nil || counted.Count == sum:
		return all
	case counted.Count == 0:
		return nil
	}
	return []record.ErrorCount{{Code: "error", Count: counted.Count, Example: "fortio counts it among its errors"}}
}

// isWell reports whether a code means success, in HTTP or in fortio's gRPC calls.
func isWell(code string) bool {
	return len(code) == 3 && strings.HasPrefix(code, "2") || code == "SERVING" || code == "OK"
}
