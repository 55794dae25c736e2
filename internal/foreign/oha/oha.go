// Package oha reads commands and JSON reports of hatoo/oha.
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
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/summary"
)

// Tool holds the flags of hatoo/oha 1.14, as in its README.
var Tool = &flags.Tool{
	Name:    "oha",
	Letters: true,
	Options: slices.Concat([]flags.Option{
		flags.Flag("-n", flags.Count, flags.Function(flags.Code("-n"), setScaledNumber("-n"))),
		flags.Flag("-c", flags.Count, flags.Function(flags.Code("-c"), setScaledNumber("-c"))),
		flags.Flag("-p", flags.Number, flags.Kept("-p", "multiplies "+flags.Code("-c")+"; the connections become "+flags.Code("--conn pool:N")+"; for HTTP/2 only")),
		flags.Flag("-w --wait-ongoing-requests-after-deadline", flags.None, flags.Ignored("calls in flight at the end are always awaited")),
		flags.Flag("-q", flags.Rate, flags.Function(flags.Code("--rps")+" (a total)", flags.PositiveRate)),
		flags.Flag("--burst-delay", flags.Duration, flags.Kept("--burst-delay", flags.Code("--rps")+" with "+flags.Code("--burst"))),
		flags.Flag("--burst-rate", flags.Number, flags.Kept("--burst-rate", flags.Code("--burst"))),
		flags.Flag("--rand-regex-url", flags.None, flags.Refused("URL patterns are not supported: write the URLs to a file, and give --rows FILE.csv")),
		flags.Flag("--urls-from-file", flags.None, flags.Kept("urls", flags.Code("--targets")+" with "+flags.Code("--random"))),
		flags.Flag("--latency-correction", flags.None, flags.Ignored("with a rate, wirelab always times from the intended instant")),
		flags.Flag("--no-tui --no-color --stats-success-breakdown", flags.None, flags.Ignored(flags.OutputOnlyNote)),
		flags.Flag("-m --method", flags.Method, flags.To("-m")),
		flags.Flag("-t", flags.Duration, flags.To("--timeout")),
		flags.Flag("--connect-timeout", flags.Duration, flags.Ignored(flags.ConnectTimeoutNote)),
		flags.Flag("-Z", flags.File, flags.Either(func(v string) bool { return strings.HasSuffix(v, ".jsonl") }, flags.To("--rows"),
			flags.Refused("one body per line is read from a .jsonl file: rename it, and give --rows FILE.jsonl"))),
		flags.Flag("-F --form", flags.Text, flags.To("-F")),
		flags.Flag("--host", flags.Text, flags.AsHeader("Host: ")),
		flags.Flag("-x --proxy-header --proxy-http-version", flags.Text, flags.Refused(flags.ProxyNote)),
		flags.Flag("--http-version", flags.OneOfWords("1.1, 2 or 3", "0.9 1.0 1 1.1 2 3"), flags.OneOf(flags.Code("--http"),
			map[string]flags.Rule{"0.9": refuseOldHTTP, "1.0": refuseOldHTTP, "1": flags.On("--http", "1.1")}, flags.To("--http"))),
		flags.Flag("--http2", flags.None, flags.On("--http", "2")),
		flags.Flag("-r --redirect", flags.Number, flags.Ignored(flags.RedirectNote)),
		flags.Flag("--no-pre-lookup", flags.None, flags.Ignored("a name is looked up once, before the load")),
		flags.Flag("--insecure", flags.None, flags.On("-k")),
		flags.Flag("--connect-to", flags.Text, flags.To("--connect-to")),
		flags.Flag("--unix-socket", flags.File, flags.To("--unix-socket")),
		flags.Flag("--debug", flags.None, flags.Refused("leave the flag out: wirelab shows the answer to its first call")),
		flags.Flag("-o --output", flags.NoneOf("a file", flags.IsFormat), flags.Function(flags.Code("-o")+": a directory", func(c *flags.Command, value string) error {
			if strings.HasSuffix(value, ".json") {
				return c.Refuse("a summary goes to standard output: write --json > " + flags.Quote(flags.Excerpt(value)))
			}
			c.Set("-o", value)
			return nil
		})),
		flags.Flag("--output-format", flags.Text, flags.OneOf(flags.Code("--json")+" for json", map[string]flags.Rule{
			"json": flags.On("--json"), "text": flags.Nothing,
			"quiet": flags.Refused("write > /dev/null behind the command, with -o DIR to keep the run"),
		}, flags.Refused("run with -o DIR, then wirelab export DIR --format csv"))),
		flags.Flag("-j --json", flags.None, flags.On("--json")),
		flags.Flag("-u --time-unit", flags.OneOfWords("a unit", "ns us ms s m h"), flags.Ignored(flags.OutputOnlyNote)),
	}, flags.HeyRequest, flags.Certificates),
	Fits: flags.CallsHTTP,
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "50")
		if !c.Has("-z") {
			c.SetDefault("-n", "200")
		}
		c.OwnConnections()
	},
	Settle: func(c *flags.Command) error {
		c.DropCountIfTimed()
		if err := settleBurst(c); err != nil {
			return err
		}
		if parallel := c.Last("-p"); parallel != "" {
			if c.Get("--http") != "2" && c.Get("--http") != "3" {
				c.Note("-p %s is left out: without HTTP/2 a connection carries one call at a time", parallel)
			} else if err := c.MultiplyClients("-p", parallel); err != nil {
				return err
			}
		}
		if len(c.Kept("urls")) > 0 && len(c.Operands) == 1 {
			c.Set("--targets", c.Operands[0])
			c.Set("--random")
			c.Operands = nil
		}
		if err := c.OneTarget(); err != nil {
			return err
		}
		if c.Get("--conn") == "new" && len(c.Operands) == 1 && strings.HasPrefix(c.Operands[0], "https:") {
			c.Set("--conn", "resumed")
			c.Note("--disable-keepalive of oha resumes TLS sessions: that is --conn resumed; --conn new would be whole handshakes")
		}
		return nil
	},
}

// setScaledNumber parses a number with oha's suffix k or m.
func setScaledNumber(flag string) func(*flags.Command, string) error {
	return func(c *flags.Command, value string) error {
		digits := strings.TrimRight(value, "kKmM")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > 1e12 {
			return c.Refuse(fmt.Sprintf("%s is too large", flags.Excerpt(value)))
		}
		switch strings.ToLower(value[len(digits):]) {
		case "k":
			n *= 1_000
		case "m":
			n *= 1_000_000
		}
		c.Set(flag, strconv.FormatInt(n, 10))
		return nil
	}
}

var refuseOldHTTP = flags.Refused("wirelab speaks HTTP/1.1, 2 and 3: write --http 1.1")

// settleBurst translates bursts: a number of requests, then a pause, repeatedly.
func settleBurst(c *flags.Command) error {
	delay, size := c.Last("--burst-delay"), c.Last("--burst-rate")
	if delay == "" {
		return nil
	}
	if c.Has("--rps") {
		c.Note("--burst-delay is left out: with -q oha ignores it")
		return nil
	}
	if size == "" {
		size = "1"
	}
	n, err := strconv.ParseFloat(size, 64)
	every := flags.ParseClock(delay)
	if err != nil || n < 1 || every <= 0 {
		return fmt.Errorf("--burst-delay %s --burst-rate %s: want both above zero", delay, size)
	}
	c.Set("--rps", flags.FormatNumber(n/every.Seconds()))
	c.Set("--burst", size)
	c.Note("%s calls every %s are --rps %s --burst %s", size, delay, c.Get("--rps"), size)
	return nil
}

// Summary is the format of oha's JSON report.
var Summary = summary.Format{
	Tool: "oha", Makes: "--output-format json",
	Is: func(o summary.Object) bool {
		return o.Has("summary", "latencyPercentiles", "statusCodeDistribution", "errorDistribution")
	},
	Read: readSummary,
}

// A jsonReport holds the members that wirelab uses in oha 1.16. Times are in seconds, or null.
type jsonReport struct {
	Summary struct {
		Total   *float64 `json:"total"`
		Slowest *float64 `json:"slowest"`
		Fastest *float64 `json:"fastest"`
		Average *float64 `json:"average"`
	} `json:"summary"`
	Percentiles map[string]*float64 `json:"latencyPercentiles"` // by name, such as p99.9
	Statuses    map[string]int64    `json:"statusCodeDistribution"`
	// requests without an answer, by error
	Errors map[string]int64 `json:"errorDistribution"`
}

// ohaDeadline names the requests that oha ended at its deadline. oha's success rate excludes these
// requests.
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
			"the file does not say whether oha held a rate (-q), nor whether it timed each request from when it was due (--latency-correction) or from its actual send: calls that a slow server delayed may be missing (coordinated omission)",
			summary.UnknownCallRemark("oha") + "; the number of clients is not in the file either",
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
	return r, nil
}

// count sets the numbers of calls. It returns the number of answered calls.
func count(r *summary.Result, report *jsonReport) (answered int64, err error) {
	add := func(to *int64, n int64) {
		if n < 0 || n > math.MaxInt64-*to {
			err = fmt.Errorf("the report counts %d requests for one status or error", n)
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
			r.Remarks = append(r.Remarks, fmt.Sprintf("oha cut off %d requests when the run's time was over: no figure includes them, and they may have been the slowest", n))
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
