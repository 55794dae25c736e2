package oha

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign/summary"
)

// Summary is the format of oha's JSON report.
var Summary = summary.Format{
	Tool: "oha", Makes: "--output-format json",
	Is: func(o summary.Object) bool {
		return o.Has("summary", "latencyPercentiles", "statusCodeDistribution", "errorDistribution")
	},
	Read: readSummary,
}

// A jsonReport holds the members of the file that are read, of oha 1.16. Times are seconds; null where no request
// was answered.
type jsonReport struct {
	Summary struct {
		Total   *float64 `json:"total"`
		Slowest *float64 `json:"slowest"`
		Fastest *float64 `json:"fastest"`
		Average *float64 `json:"average"`
	} `json:"summary"`
	Percentiles map[string]*float64 `json:"latencyPercentiles"` // by name, as in p99.9
	Statuses    map[string]int64    `json:"statusCodeDistribution"`
	Errors      map[string]int64    `json:"errorDistribution"` // of requests without an answer
}

// ohaDeadline is oha's name for a request that it cut off at the end of its time. oha leaves these
// out of its own rate of success.
const ohaDeadline = "aborted due to deadline"

func readSummary(data []byte) (*summary.Result, error) {
	var report jsonReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	s := report.Summary
	if s.Total == nil || s.Slowest == nil || s.Fastest == nil || s.Average == nil {
		return nil, fmt.Errorf("no request was answered%s", firstError(report.Errors))
	}
	r := &summary.Result{
		Workload: summary.UnknownCall, Load: record.Load{Model: record.UnknownLoad}, Window: time.Duration(summary.Nanoseconds(*s.Total, time.Second)),
		Remarks: []string{
			"the file does not say whether oha held a rate (-q), nor whether it timed from when a request was due (--latency-correction) or from its actual send: what a slow server put off may be missing (coordinated omission)",
			summary.UnknownCallRemark("oha") + "; nor how many clients there were",
		},
	}
	answered, err := count(r, &report)
	if err != nil {
		return nil, err
	}
	r.Times = summary.Totals(answered, *s.Average*1e9, summary.Nanoseconds(*s.Fastest, time.Second), summary.Nanoseconds(*s.Slowest, time.Second))
	for name, value := range report.Percentiles {
		percent, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if err == nil && percent >= 0 && percent <= 100 && value != nil {
			r.Times.Percentiles = append(r.Times.Percentiles, latency.Percentile{Quantile: percent / 100, Duration: summary.Nanoseconds(*value, time.Second)})
		}
	}
	r.Times.Percentiles = summary.Sort(r.Times.Percentiles)
	return r, nil
}

// count counts the calls, and returns how many were answered: oha times these, whatever
// their status.
func count(r *summary.Result, report *jsonReport) (answered int64, err error) {
	add := func(to *int64, n int64) {
		if n < 0 || n > math.MaxInt64-*to {
			err = fmt.Errorf("it counts %d requests of one kind", n)
			return
		}
		*to += n
	}
	for _, status := range slices.Sorted(maps.Keys(report.Statuses)) {
		n := report.Statuses[status]
		if add(&answered, n); strings.HasPrefix(status, "4") || strings.HasPrefix(status, "5") {
			r.Errors = append(r.Errors, record.ErrorCount{Code: status, Count: n, Example: "HTTP status " + status})
		}
	}
	r.Calls = answered
	for _, text := range slices.Sorted(maps.Keys(report.Errors)) {
		n := report.Errors[text]
		if text == ohaDeadline {
			r.Remarks = append(r.Remarks, fmt.Sprintf("oha cut off %d requests when its time was over: they are in no figure, and may have been its slowest", n))
			continue
		}
		add(&r.Calls, n)
		r.Errors = append(r.Errors, record.ErrorCount{Code: "error", Count: n, Example: text})
	}
	return answered, err
}

func firstError(texts map[string]int64) string {
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.200q", slices.Min(slices.Collect(maps.Keys(texts))))
}
