// Package k6 reads summaries of grafana/k6. It does not run k6's scripts.
package k6

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/summary"
)

// Tool translates a summary into a command that makes the same load.
var Tool = &flags.Tool{
	Name: "k6", OnlyFiles: true, ReadFile: readFile,
	IsFile: func(object map[string]json.RawMessage) bool {
		o := summary.Object(object)
		return o.Has("metrics", "root_group") || o.Has("metrics", "state")
	},
	Options: []flags.Option{
		flags.Flag("-c", flags.Number, flags.To("-c")),
		flags.Flag("-z", flags.Duration, flags.To("-z")),
	},
	Settle: func(c *flags.Command) error {
		c.Note("a summary of k6 lacks the method, headers and data of the calls: add -m, -H and -d")
		c.Note("clients and duration are of the whole run, including its ramps and pauses")
		return nil
	},
}

// taggedURL matches the URL in the name of a metric. k6 adds the URL if a threshold is for this URL
// only.
var taggedURL = pattern.Lazy(`\{.*(?:url|name):((?:https?|grpcs?)://[^\s,}]+).*\}`)

// readFile returns flags for a summary's clients and duration, and the URL that a threshold names.
func readFile(text string) ([]string, error) {
	if len(text) > flags.MaxTextBytes {
		return nil, fmt.Errorf("the file has %d bytes, more than any summary: give the file of --summary-export", len(text))
	}
	var report jsonReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("want the JSON file of --summary-export; a script is not run: %w", err)
	}
	if len(report.Metrics) == 0 {
		return nil, errors.New("the file has no metrics: want the JSON file of --summary-export")
	}
	words, urls := loadFlags(&report), []string{}
	for _, name := range slices.Sorted(maps.Keys(report.Metrics)) {
		if found := taggedURL().FindStringSubmatch(name); len(found) > 1 {
			urls = lists.AppendNew(urls, found[1])
		}
	}
	if len(urls) == 1 {
		return append(words, urls[0]), nil
	}
	why := "a summary does not name the called URL"
	if len(urls) > 1 {
		why = fmt.Sprintf("the summary covers %d URLs, and their shares are unknown", len(urls))
	}
	return nil, fmt.Errorf("%s: write %s", why, strings.Join(append([]string{"wirelab load URL"}, words...), " "))
}

func loadFlags(report *jsonReport) []string {
	words := []string{}
	if clients := report.Metrics["vus_max"]["max"]; clients >= 1 && clients < 1e6 {
		words = append(words, "-c", strconv.Itoa(int(clients)))
	}
	requests := report.Metrics["http_reqs"]
	if requests["count"] == 0 {
		requests = report.Metrics["iterations"]
	}
	seconds := report.State.TestRunDurationMs / 1e3
	if seconds == 0 && requests["rate"] > 0 {
		seconds = requests["count"] / requests["rate"]
	}
	if seconds >= 0.1 && seconds < 1e6 {
		lasts := time.Duration(seconds * float64(time.Second)).Round(time.Second / 10)
		words = append(words, "-z", flags.ShortDuration(lasts))
	}
	return words
}

// Summary is the format of k6's JSON report.
var Summary = summary.Format{
	Tool: "k6", Makes: "--summary-export FILE, or handleSummary's data",
	Is:   func(o summary.Object) bool { return o.Has("metrics", "root_group") },
	Read: readSummary,
}

// A jsonReport holds the members that wirelab uses in k6 1.8: the data of handleSummary, or the
// older form of --summary-export. In the older form, a metric holds its values directly.
type jsonReport struct {
	State struct {
		TestRunDurationMs float64 `json:"testRunDurationMs"` // only in the data of handleSummary
	} `json:"state"`
	Metrics map[string]k6Metric `json:"metrics"`
}

// A k6Metric maps the names of a metric's values to the values. Durations are in milliseconds.
type k6Metric map[string]float64

func (m *k6Metric) UnmarshalJSON(data []byte) error {
	var written map[string]json.RawMessage
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	if inner, nested := written["values"]; nested {
		written = nil
		if err := json.Unmarshal(inner, &written); err != nil {
			return err
		}
	}
	*m = k6Metric{}
	for name, text := range written {
		var value *float64
		if json.Unmarshal(text, &value) == nil && value != nil {
			(*m)[name] = *value
		}
	}
	return nil
}

// k6Calls lists the metrics that describe calls. wirelab uses the first metric that a file
// contains.
var k6Calls = []struct{ duration, count, failed, remark string }{
	{
		"http_req_duration", "http_reqs", "http_req_failed",
		"k6 timed each request from its first byte sent to its last received: connecting, TLS and waiting for a free connection are not included",
	},
	{duration: "grpc_req_duration", remark: "k6 does not count failed gRPC calls separately: all calls count as successful"},
}

func readSummary(data []byte) (*summary.Result, error) {
	var report jsonReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	for _, of := range k6Calls {
		times, has := report.Metrics[of.duration]
		if !has {
			continue
		}
		r := &summary.Result{Workload: of.duration, Remarks: []string{of.remark, summary.UnknownCallRemark("k6")}}
		if err := count(r, &report, times, of.count, of.failed); err != nil {
			return nil, err
		}
		if err := setTimes(r, times); err != nil {
			return nil, err
		}
		setLoad(r, report.Metrics)
		return r, nil
	}
	return nil, errors.New("the file has neither http_req_duration nor grpc_req_duration, so no call was timed")
}

// count sets the numbers of calls. For gRPC, only the duration metric may have the number of calls,
// and only if the user asked k6 for it.
func count(r *summary.Result, report *jsonReport, times k6Metric, counter, failed string) error {
	count, counted := times["count"]
	of := report.Metrics[counter]
	if !counted {
		count, counted = of["count"]
	}
	if !counted {
		return fmt.Errorf("the report lacks the number of calls: run k6 with --summary-trend-stats '%s'", k6Stats)
	}
	if !(count >= 1 && count < math.MaxInt64) {
		return errors.New("the report holds no calls")
	}
	r.Calls = int64(count)
	r.Window = time.Duration(summary.Nanoseconds(report.State.TestRunDurationMs, time.Millisecond))
	for _, name := range []string{counter, "iterations"} {
		m := report.Metrics[name]
		if r.Window <= 0 && m["rate"] > 0 && m["count"] > 0 {
			r.Window = time.Duration(summary.Nanoseconds(m["count"]/m["rate"], time.Second))
		}
	}
	// passes counts how often a rate metric was true
	if n := report.Metrics[failed]["passes"]; n > 0 {
		r.Errors = []record.ErrorCount{{Code: failed, Count: int64(min(n, math.MaxInt64/2)), Example: "k6's http_req_failed: the status was not expected, or there was none"}}
	}
	return nil
}

// k6Stats lists the statistics that k6 must write.
const k6Stats = "avg,min,med,max,p(90),p(95),p(99),p(99.9),count"

func setTimes(r *summary.Result, times k6Metric) error {
	for _, name := range []string{"avg", "min", "max"} {
		if _, has := times[name]; !has {
			return fmt.Errorf("%s in the report has no %s: run k6 with --summary-trend-stats '%s'", r.Workload, name, k6Stats)
		}
	}
	r.Times = summary.Totals(r.Calls, times["avg"]*1e6, summary.Nanoseconds(times["min"], time.Millisecond), summary.Nanoseconds(times["max"], time.Millisecond))
	for name, value := range times {
		quantile := 0.5
		if text, is := strings.CutPrefix(name, "p("); is {
			percent, err := strconv.ParseFloat(strings.TrimSuffix(text, ")"), 64)
			if err != nil || !(percent >= 0 && percent <= 100) {
				continue
			}
			quantile = percent / 100
		} else if name != "med" {
			continue
		}
		r.Times.Percentiles = append(r.Times.Percentiles, latency.Percentile{Quantile: quantile, Duration: summary.Nanoseconds(value, time.Millisecond)})
	}
	return nil
}

// setLoad sets the clients and the load model, if the summary contains them.
func setLoad(r *summary.Result, metrics map[string]k6Metric) {
	most, now := metrics["vus_max"], metrics["vus"]
	if most["max"] == most["min"] && (now["max"] == 0 || now["max"] == now["min"] && now["max"] == most["max"]) {
		r.Clients = int(min(max(most["max"], 0), math.MaxInt32))
	}
	if dropped, is := metrics["dropped_iterations"]; is {
		r.Load.Model = "open"
		r.Remarks = append(r.Remarks, fmt.Sprintf("k6 sent at an arrival rate, which the file does not contain, and skipped %.0f iterations because no client was free: no figure includes their waiting time (coordinated omission)", dropped["count"]))
		return
	}
	r.Load.Model = record.UnknownLoad
	r.Remarks = append(r.Remarks, "the file does not say whether k6 ran a closed loop or a schedule, nor whether its script paused between calls; each call is timed from its actual send, so calls that a slow server delayed may be missing (coordinated omission)")
	if r.Clients == 0 {
		r.Remarks = append(r.Remarks, fmt.Sprintf("k6 had up to %.0f virtual users, sometimes fewer", most["max"]))
	}
}
