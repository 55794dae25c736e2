package foreign

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
)

var oha = Tool{
	Name: "oha", Makes: "--output-format json",
	isIts: func(o object) bool {
		return o.has("summary", "latencyPercentiles", "statusCodeDistribution", "errorDistribution")
	},
	read: readOha,
}

// ohaReport is what is read of the file, of oha 1.16. Times are seconds; null where no request
// was answered.
type ohaReport struct {
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

// ohaDeadline is what oha calls a request that it cut off when its time was over; oha leaves
// these out of its own rate of success.
const ohaDeadline = "aborted due to deadline"

func readOha(data []byte) (*Result, error) {
	var report ohaReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	s := report.Summary
	if s.Total == nil || s.Slowest == nil || s.Fastest == nil || s.Average == nil {
		return nil, fmt.Errorf("no request was answered%s", firstError(report.Errors))
	}
	r := &Result{
		Workload: untold, Load: record.Load{Model: record.UnknownLoad}, Window: time.Duration(nanoseconds(*s.Total, time.Second)),
		Remarks: []string{
			"the file does not say whether oha held a rate (-q), nor whether it timed from when a request was due (--latency-correction) or from its actual send: what a slow server put off may be missing (coordinated omission)",
			untoldCall("oha") + "; nor how many clients there were",
		},
	}
	answered, err := r.countOha(&report)
	if err != nil {
		return nil, err
	}
	r.Times = totals(answered, *s.Average*1e9, nanoseconds(*s.Fastest, time.Second), nanoseconds(*s.Slowest, time.Second))
	for name, value := range report.Percentiles {
		percent, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if err == nil && percent >= 0 && percent <= 100 && value != nil {
			r.Times.Percentiles = append(r.Times.Percentiles, latency.Percentile{Quantile: percent / 100, Duration: nanoseconds(*value, time.Second)})
		}
	}
	r.Times.Percentiles = inOrder(r.Times.Percentiles)
	return r, nil
}

// countOha counts the calls, and returns how many were answered: oha times these, whatever
// their status.
func (r *Result) countOha(report *ohaReport) (answered int64, err error) {
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
