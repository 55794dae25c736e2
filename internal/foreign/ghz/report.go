package ghz

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/summary"
)

func isFile(object map[string]json.RawMessage) bool {
	o := summary.Object(object)
	return o.Has("host", "call") || o.Has("options", "statusCodeDistribution")
}

// readFile returns the flags from ghz's configuration, or from the options in its report.
func readFile(text string) ([]string, error) {
	if len(text) > flags.MaxFileBytes {
		return nil, fmt.Errorf("the file has %d bytes, but the limit is %d: keep only the options, which ghz's report has at the top", len(text), flags.MaxFileBytes)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("the file is not JSON: %w", err)
	}
	if options, is := entries["options"]; is {
		entries = nil
		if err := json.Unmarshal(options, &entries); err != nil {
			return nil, fmt.Errorf("options in the report: %w", err)
		}
	}
	if _, is := entries["host"]; !is {
		return nil, errors.New("the file names no host: is it a report of ghz (-O json), or its configuration?")
	}
	words := []string{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		found, err := entryFlags(key, entries[key])
		if err != nil {
			return nil, fmt.Errorf("%s in the file: %w", key, err)
		}
		words = append(words, found...)
	}
	return words, nil
}

// entryFlags returns the flag for an entry of the file. It returns none if the entry has no effect.
func entryFlags(key string, raw json.RawMessage) ([]string, error) {
	switch key {
	case "host":
		var host string
		err := json.Unmarshal(raw, &host)
		return []string{host}, err
	case "CPUs", "cpus", "dial-timeout", "connect-timeout", "output", "format", "$schema", "tags":
		return nil, nil // an entry without an effect on figures
	case "data":
		return []string{"--data=" + string(raw)}, nil
	case "metadata", "reflect-metadata":
		if s := strings.TrimSpace(string(raw)); s == "null" || s == "{}" {
			return nil, nil
		}
		return []string{"--" + key + "=" + string(raw)}, nil
	}
	if flags.Find(options, "--"+key) == nil {
		return nil, errors.New("wirelab does not know this flag: leave it out")
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return valueFlag(key, value)
}

func valueFlag(key string, value any) ([]string, error) {
	text := ""
	switch v := value.(type) {
	case nil:
	case bool:
		if v {
			return []string{"--" + key}, nil
		}
	case string:
		text = v
	case float64:
		text = flags.FormatNumber(v)
		if strings.Contains(key, "duration") || key == "timeout" || key == "keepalive" || key == "stream-interval" {
			text = time.Duration(v).String() // a report holds nanoseconds
		}
	case []any:
		text = strings.Join(lists.Map(v, func(part any) string { return fmt.Sprint(part) }), ",")
	default:
		return nil, errors.New("a flag cannot have an object as its value")
	}
	if text == "" || text == "0" || text == "0s" {
		return nil, nil
	}
	return []string{"--" + key + "=" + text}, nil
}

// Summary is the format of ghz's JSON report.
var Summary = summary.Format{
	Tool: "ghz", Makes: "--format json",
	Is: func(o summary.Object) bool {
		return o.Has("options", "count", "total", "average", "statusCodeDistribution")
	},
	Read: readSummary,
}

// A jsonReport holds the members that wirelab uses of runner.Report in ghz 0.93. Times are in
// nanoseconds. The list of calls is not used, because ghz stores only the first million.
type jsonReport struct {
	Date    time.Time `json:"date"`
	Options struct {
		Call         string `json:"call"`
		Host         string `json:"host"`
		RPS          uint64 `json:"rps"`
		LoadSchedule string `json:"load-schedule"`
		Concurrency  int    `json:"concurrency"`
		CSchedule    string `json:"concurrency-schedule"`
		Async        bool   `json:"async"`
		SkipFirst    uint64 `json:"skipFirst"`
		CountErrors  bool   `json:"count-errors"`
	} `json:"options"`
	Count    int64            `json:"count"`
	Total    int64            `json:"total"`
	Average  int64            `json:"average"`
	Fastest  int64            `json:"fastest"`
	Slowest  int64            `json:"slowest"`
	Statuses map[string]int64 `json:"statusCodeDistribution"`

	Latencies []struct {
		Percentage int   `json:"percentage"`
		Latency    int64 `json:"latency"`
	} `json:"latencyDistribution"`
	ErrorTexts map[string]int64 `json:"errorDistribution"`
}

func readSummary(data []byte) (*summary.Result, error) {
	var report jsonReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	o := report.Options
	r := &summary.Result{
		Target: o.Host, Workload: o.Call, Clients: o.Concurrency, Started: report.Date,
		Window: time.Duration(report.Total), Calls: report.Count,
		Times: summary.Totals(report.Count, float64(report.Average), report.Fastest, report.Slowest),
	}
	for _, l := range report.Latencies {
		if l.Latency > 0 { // ghz writes 0 for an unknown percentile
			r.Times.Percentiles = append(r.Times.Percentiles, latency.Percentile{Quantile: float64(l.Percentage) / 100, Duration: l.Latency})
		}
	}
	r.Errors = ghzErrors(report.Statuses, report.ErrorTexts)
	setLoad(r, &report)
	if len(r.Errors) > 0 && !o.CountErrors {
		r.Remarks = append(r.Remarks, "ghz's mean covers all calls; its percentiles and slowest call cover only successful calls")
		r.Times.Min, r.Times.Max = min(r.Times.Min, report.Average), max(r.Times.Max, report.Average)
	}
	if o.SkipFirst > 0 {
		r.Remarks = append(r.Remarks, fmt.Sprintf("ghz left out the first %d calls, but not their time, so the throughput is too low", o.SkipFirst))
	}
	return r, nil
}

func setLoad(r *summary.Result, report *jsonReport) {
	o := report.Options
	schedules := o.LoadSchedule != "" && o.LoadSchedule != "const" || o.CSchedule != "" && o.CSchedule != "const"
	switch {
	case schedules:
		r.Load.Model = record.UnknownLoad
		r.Remarks = append(r.Remarks, fmt.Sprintf("ghz changed its load during the run (load-schedule %s, concurrency-schedule %s): the figures cover the whole run", o.LoadSchedule, o.CSchedule))
	case o.RPS > 0 && o.Async:
		r.Load = record.Load{Model: "open", RatePerSecond: float64(o.RPS), Arrivals: "constant"}
		r.Remarks = append(r.Remarks, "ghz sent on a schedule without waiting for answers (--async), and timed each call from its actual send: delays before the send are not included")
	case o.RPS > 0:
		r.Load = record.Load{Model: record.Paced, RatePerSecond: float64(o.RPS)}
		r.Remarks = append(r.Remarks, summary.PacedRemark("ghz"))
	default:
		r.Load.Model = "closed"
		r.Remarks = append(r.Remarks, summary.ClosedRemark("ghz"))
	}
}

func ghzErrors(statuses, texts map[string]int64) []record.ErrorCount {
	example := ""
	if names := slices.Sorted(maps.Keys(texts)); len(names) > 0 {
		example = slices.MaxFunc(names, func(a, b string) int { return int(texts[a] - texts[b]) })
	}
	var all []record.ErrorCount
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		if status != "OK" {
			all = append(all, record.ErrorCount{Code: status, Count: statuses[status], Example: example})
		}
	}
	return all
}
