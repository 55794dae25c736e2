// Package fortio reads commands and JSON reports of fortio/fortio.
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
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/foreign/summary"
)

// Tool holds the flags of the command load of fortio/fortio 1.75.
var Tool = &flags.Tool{
	Name:    "fortio",
	OneDash: true,
	Options: slices.Concat(callFlags, flags.Certificates, loadFlags),
	Fits: func(c *flags.Command) bool {
		if len(c.Operands) > 0 && c.Operands[0] == "load" {
			return len(c.Operands) <= 2 && len(c.Kept("body")) <= 1
		}
		return flags.CallsHTTP(c)
	},
	Usual: func(c *flags.Command) {
		c.SetDefault("-c", "4")
		if !c.Has("--rps") && len(c.Kept("-qps")) == 0 {
			c.SetDefault("--rps", "8")
		}
		if !c.Has("-n") {
			c.SetDefault("-z", "5s")
		}
		c.OwnConnections()
	},
	Settle: settle,
}

var callFlags = []flags.Option{
	flags.Flag("-H", flags.Header, flags.HeaderLine),
	flags.Flag("-X", flags.Method, flags.To("-m")),
	flags.Flag("-L", flags.None, flags.Ignored(flags.RedirectNote)),
	flags.Flag("--payload", flags.Text, flags.Body),
	flags.Flag("--payload-file", flags.File, flags.To("-D")),
	flags.Flag("--payload-size", flags.Number, flags.Refused("write data of this size to a file, and give -D FILE")),
	flags.Flag("--content-type", flags.MediaType, flags.To("-T")),
	flags.Flag("--user", flags.User, flags.To("--user")),
	flags.Flag("--h2", flags.None, flags.On("--http", "2")),
	flags.Flag("--stdclient --std-client", flags.None, flags.Ignored("the flag selects an engine of fortio")),
	flags.Flag("--compression", flags.None, flags.On("-H", "Accept-Encoding: gzip")),
	flags.Flag("-k --https-insecure", flags.None, flags.On("-k")),
	flags.Flag("--resolve", flags.Value("an IP address", flags.IsIP), flags.Changed("--connect-to", func(address string) string { return "::" + bracketed(address) + ":" })),
	flags.Flag("--unix-socket", flags.File, flags.To("--unix-socket")),
	flags.Flag("--keepalive", flags.Maybe, flags.OneOf(flags.Code("--conn new")+" for false", map[string]flags.Rule{"false": flags.On("--conn", "new")}, flags.Nothing)),
	flags.Flag("--grpc", flags.None, flags.Kept("-grpc", "a call of "+flags.Code("grpc.health.v1.Health/Check"))),
	flags.Flag("--ping", flags.None, flags.Kept("-ping", "a call of "+flags.Code("fgrpc.PingServer/Ping"))),
	flags.Flag("--grpc-method", flags.Text, flags.Function(flags.Code("--call"), func(c *flags.Command, value string) error {
		c.Keep("-grpc", "")
		c.Set("--call", flags.Slashed(value))
		return nil
	})),
	flags.Flag("--health", flags.None, flags.Kept("-grpc", "a call of "+flags.Code("grpc.health.v1.Health/Check"))),
	flags.Flag("--healthservice", flags.Text, flags.Kept("-healthservice", "the service in "+flags.Code("-d"))),
	flags.Flag("--grpc-compression", flags.None, flags.On("-e", "gzip")),
	flags.Flag("-s", flags.Number, flags.Kept("-s", "multiplies "+flags.Code("-c")+"; the connections become "+flags.Code("--conn pool:N"))),
}

var loadFlags = []flags.Option{
	flags.Flag("--qps", flags.Value("a number, or max", func(v string) bool { return v == "max" || v == "-1" || flags.IsNumber(v) }),
		flags.Function(flags.Code("--rps")+" (a total)", func(c *flags.Command, value string) error {
			c.Keep("-qps", value)
			if value == "max" || value == "-1" {
				return nil
			}
			return flags.PositiveRate(c, value)
		})),
	flags.Flag("-c", flags.Number, flags.To("-c")),
	flags.Flag("-n", flags.Number, flags.OneOf(flags.Code("-n"), map[string]flags.Rule{"0": flags.Nothing}, flags.To("-n"))),
	flags.Flag("-t", flags.Duration, flags.Either(flags.IsAboveZero, flags.To("-z"), flags.Refused("a run needs an end: give a duration, as in -z 30s"))),
	flags.Flag("--timeout", flags.Duration, flags.To("--timeout")),
	flags.Flag("--jitter", flags.None, flags.On("--arrivals", "poisson")),
	flags.Flag("--uniform --nocatchup --sequential-warmup", flags.Maybe, flags.Ignored("the intended instants of calls are evenly spread")),
	flags.Flag("-p --percentiles", flags.Text, flags.Ignored("percentiles are always shown")),
	flags.Flag("-a", flags.None, flags.Ignored("-o DIR stores the run")),
	flags.Flag("--json", flags.Value("a file, as in run.json, or -", func(v string) bool { return v == "-" || strings.HasSuffix(v, ".json") }), flags.Function(flags.Code("--json"), func(c *flags.Command, value string) error {
		if value != "-" {
			return c.Refuse("the summary goes to standard output: write --json > " + flags.Quote(flags.Excerpt(value)))
		}
		c.Set("--json")
		return nil
	})),
	flags.Flag("--labels --data-dir --runid", flags.Text, flags.Ignored("name the run by -o DIR")),
	flags.Flag("--loglevel --profile --access-log-file", flags.Text, flags.Ignored(flags.OutputOnlyNote)),
	flags.Flag("--log-errors --allow-initial-errors --logger-json", flags.Maybe, flags.Ignored(flags.OutputOnlyNote)),
	flags.Flag("--gomaxprocs --httpbufferkb", flags.Number, flags.Ignored(flags.ThreadsNote)),
	flags.Flag("--abort-on", flags.Text, flags.Refused("a run is not aborted: for a failing exit code write --fail-if 'errors>0'")),
}

func settle(c *flags.Command) error {
	if len(c.Operands) > 0 {
		switch verb := c.Operands[0]; {
		case verb == "load":
			c.Operands = c.Operands[1:]
		case slices.Contains([]string{"server", "curl", "report", "redirect", "grpcping", "nc", "script", "proxies", "tcp-echo", "udp-echo"}, verb):
			return fmt.Errorf("fortio %s makes no load: give a fortio load command", verb)
		}
	}
	if c.Pasted && c.Has("-n") && c.Has("-z") {
		c.Note("-t %s is left out: with -n, fortio ends only after this number of calls", c.Get("-z"))
		c.Unset("-z")
	}
	if err := c.MultiplyClients("-s", c.Last("-s")); err != nil {
		return err
	}
	if len(c.Kept("-grpc"))+len(c.Kept("-ping")) > 0 {
		return settleGRPC(c)
	}
	if (c.Has("-d") || c.Has("-D") || c.Has("-T")) && !c.Has("-m") {
		c.Set("-m", "POST")
	}
	return c.OneTarget()
}

func bracketed(address string) string {
	if strings.Contains(address, ":") {
		return "[" + strings.Trim(address, "[]") + "]"
	}
	return address
}

// settleGRPC translates a gRPC call, of a method or of one of fortio's built-in services.
func settleGRPC(c *flags.Command) error {
	if len(c.Operands) != 1 {
		if c.Pasted {
			return fmt.Errorf("the fortio command has %d addresses: want one, as in 127.0.0.1:8079", len(c.Operands))
		}
		return nil
	}
	if !c.Has("--call") {
		c.Set("--call", "grpc.health.v1.Health/Check")
		if service := c.Last("-healthservice"); service != "" {
			c.Set("-d", fmt.Sprintf(`{"service":%q}`, service))
		}
		if len(c.Kept("-ping")) > 0 {
			c.Set("--call", "fgrpc.PingServer/Ping")
		}
	}
	address, secure := strings.CutPrefix(c.Operands[0], "https://")
	address = strings.TrimPrefix(address, "http://")
	c.Operands[0] = strings.TrimSuffix(address, "/")
	c.Cleartext()
	if secure || c.Has("--cacert") || c.Has("-k") {
		c.Operands[0] = "grpcs" + strings.TrimPrefix(c.Operands[0], "grpc")
	}
	return nil
}

// Summary is the format of fortio's JSON report.
var Summary = summary.Format{
	Tool: "fortio", Makes: "-json FILE",
	Is: func(o summary.Object) bool {
		return o.Has("RunType", "DurationHistogram", "RequestedQPS", "NumThreads")
	},
	Read: readSummary,
}

// A jsonReport holds the members that wirelab uses of periodic.RunnerResults in fortio 1.65, and of
// its HTTP and gRPC runners. Times are in seconds, except ActualDuration.
type jsonReport struct {
	RunType        string
	StartTime      time.Time
	RequestedQPS   string // a number, or the word max
	ActualDuration int64
	NumThreads     int
	Version        string
	NoCatchUp      bool
	Resolution     float64
	URL            string
	Destination    string           // only in gRPC reports
	RetCodes       map[string]int64 // number of calls by HTTP or gRPC status code

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
	r.Errors = report.errors()
	if report.RequestedQPS == "max" {
		r.Load.Model = "closed"
		r.Remarks = append(r.Remarks, summary.ClosedRemark("fortio"))
	} else {
		rate, err := strconv.ParseFloat(report.RequestedQPS, 64)
		if err != nil {
			return nil, fmt.Errorf("RequestedQPS in the report is %q: want a number, or max", report.RequestedQPS)
		}
		r.Load = record.Load{Model: record.Paced, RatePerSecond: rate}
		r.Remarks = append(r.Remarks, summary.PacedRemark("fortio"))
		if !report.NoCatchUp {
			r.Remarks = append(r.Remarks, "after a stall, fortio sent faster to catch up; -nocatchup turns this off")
		}
	}
	r.Remarks = append(r.Remarks, "fortio interpolates its percentiles within its own buckets, which are at least "+resolution(report.Resolution)+" wide")
	return r, nil
}

// resolution formats the width of the narrowest buckets. Files of gRPC runs lack this width.
func resolution(seconds float64) string {
	if seconds <= 0 {
		return "1 ms (the default)"
	}
	return fmt.Sprintf("%g ms", seconds*1e3)
}

// errors returns fortio's errors by code. If they do not add up, it returns only their sum.
func (f *jsonReport) errors() []record.ErrorCount {
	var all []record.ErrorCount
	sum := int64(0)
	for _, code := range slices.Sorted(maps.Keys(f.RetCodes)) {
		if isSuccess(code) {
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
	return []record.ErrorCount{{Code: "error", Count: counted.Count, Example: "fortio counts this as an error"}}
}

// isSuccess reports whether a status code means success, in HTTP or in fortio's gRPC calls.
func isSuccess(code string) bool {
	return len(code) == 3 && strings.HasPrefix(code, "2") || code == "SERVING" || code == "OK"
}
