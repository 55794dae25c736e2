package report

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

// none is the figure that is null in JSON.
var none = analysis.Figure{Value: math.NaN()}

// NewObject puts the run into the form that programs may rely on. Lists are
// never null.
func NewObject(run *Run) *Object {
	s := run.Summary
	return &Object{
		Version:     ObjectVersion,
		Name:        s.Name,
		Status:      s.Status,
		Partial:     s.Partial(),
		Seed:        s.Seed,
		Trials:      TrialCounts{Planned: s.Planned, Done: s.Done, Invalid: s.Invalid, Failed: s.Failed},
		Cells:       each(s.Cells, cellObject),
		Comparisons: each(s.Comparisons, comparisonObject),
		Knees:       each(s.Knees, kneeObject),
		Crossovers:  each(s.Crossovers, crossoverObject),
		Limits:      each(s.Limits, limitObject),
		WarmUps:     each(s.WarmUps, warmUpObject),
		Contrasts:   each(s.Contrasts, contrastObject),
		Scalings:    each(s.Scalings, scalingObject),
		Claims:      each(s.Claims, claimObject),
		Allocations: each(s.Allocations, allocationObject),
		Settings:    each(s.Settings, settingObject),
		Machine:     each(s.Machine, machineObject),
		Advice:      listed(run.Advice),
		Warnings:    listed(s.Warnings),
		Directory:   run.Directory,
	}
}

func each[From, To any](list []From, convert func(*From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(&list[i])
	}
	return converted
}

func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func cellObject(c *analysis.Cell) CellObject {
	f := figures{cell: c, intervals: IntervalsByField{}}
	latencies := func(path string, l *analysis.Latencies) LatencyObject {
		return LatencyObject{
			Mean:  f.take(path+".mean", &l.Mean),
			P50:   f.take(path+".p50", &l.P50),
			P90:   f.take(path+".p90", &l.P90),
			P95:   f.take(path+".p95", &l.P95),
			P99:   f.take(path+".p99", &l.P99),
			P999:  f.take(path+".p999", &l.P999),
			P9999: f.take(path+".p9999", &l.P9999),
			Max:   f.take(path+".max", &l.Max),
		}
	}
	object := CellObject{
		Part:          c.Part,
		Stack:         c.Stack,
		Variant:       c.Variant,
		Workload:      c.Workload,
		RequestBytes:  c.RequestBytes,
		ResponseBytes: c.ResponseBytes,
		Clients:       c.Clients,
		Connection:    c.Connection,
		Load:          c.Load,
		Requests:      c.Requests,
		Errors:        c.Errors,
		ErrorKinds:    listed(c.ErrorKinds),
		ThroughputRPS: f.take("throughput_rps", &c.Throughput),
		Service:       latencies("service_us", &c.Service),
		Response:      latencies("response_us", response(c)),
		P99OverP50:    f.take("p99_over_p50", &c.P99OverP50),
		ClientCPU:     f.take("client_cpu_us", c.Client.CPU),
		ServerCPU:     f.take("server_cpu_us", c.Server.CPU),
		InFlight:      f.take("in_flight", &c.InFlight),
		WarmUpMS:      f.take("warm_up_ms", &c.WarmUp),
		Opened:        f.take("connections_opened", &c.Connections.Opened),
		Drain:         f.take("drain_us", c.Drain),
		Search:        f.search(c.Search),
		Client:        f.end("client", &c.Client),
		Server:        f.end("server", &c.Server),
		Bound:         c.Bound,
		Survival:      survivalObject(&c.Survival),
		Connections:   f.connections(&c.Connections),
		Traffic:       f.traffic(c.Traffic),
		Wire:          f.wire(c.Wire),
		Valid:         c.IsValid(),
		Trials:        c.Trials,
		ValidTrials:   c.Valid,
		Warnings:      warnings(c),
		Intervals:     f.intervals,
	}
	if c.Wait != nil {
		wait := latencies("wait_us", c.Wait)
		object.Wait = &wait
	}
	return object
}

// response is the time from the intended send, which is the service time where
// the two are the same.
func response(c *analysis.Cell) *analysis.Latencies {
	if c.Response != nil {
		return c.Response
	}
	return &c.Service
}

// take notes the figure's interval under its path, and returns the figure.
func (i IntervalsByField) take(path string, f analysis.Figure) Number {
	if f.Interval != nil {
		i[path] = IntervalObject{
			Low:        Number(f.Interval.Low),
			High:       Number(f.Interval.High),
			Confidence: Number(f.Interval.Confidence),
		}
	}
	return Number(f.Value)
}

// warnings tells what is wrong with a cell, worst first.
func warnings(c *analysis.Cell) []string {
	var texts []string
	if c.Failure != "" {
		texts = append(texts, failureHeadline(c)+": "+c.Failure)
	}
	for _, finding := range c.Findings {
		texts = append(texts, findingText(finding, c.Trials))
	}
	if text, differs := unachieved(c); differs {
		texts = append(texts, connectionsNote+": "+text)
	}
	return listed(append(texts, c.Warnings...))
}

// failureHeadline tells whether what failed were all trials of the cell.
func failureHeadline(c *analysis.Cell) string {
	if c.IsValid() {
		return "a trial gave no measurement"
	}
	return "no measurement"
}

func findingText(f analysis.Finding, trials int) string {
	var text strings.Builder
	switch f.Level {
	case record.Invalid:
		text.WriteString("invalid, ")
	case record.Unknown:
		text.WriteString("not known, ")
	}
	text.WriteString(f.Name)
	if trials > 1 {
		fmt.Fprintf(&text, " (%d of %d trials)", f.Trials, trials)
	}
	text.WriteString(": " + f.Detail)
	return text.String()
}

func comparisonObject(c *analysis.Comparison) ComparisonObject {
	intervals := IntervalsByField{}
	return ComparisonObject{
		Part: c.Part, A: c.A, B: c.B,
		Workload: c.Workload, RequestBytes: c.RequestBytes, ResponseBytes: c.ResponseBytes,
		Clients: c.Clients, Load: c.Load,
		Metric:    c.Metric,
		Pairs:     c.Pairs,
		Ratio:     intervals.take("ratio", c.Ratio),
		P:         Number(c.P),
		Verdict:   c.Verdict,
		Margin:    Number(c.Margin),
		Intervals: intervals,
	}
}

func kneeObject(k *analysis.Knee) KneeObject {
	intervals := IntervalsByField{}
	clients := k.Clients
	if !k.Found {
		clients = none
	}
	return KneeObject{
		Part: k.Part, Variant: k.Variant, Connection: k.Connection, RequestBytes: k.RequestBytes,
		By:        k.By,
		Found:     k.Found,
		Clients:   intervals.take("clients", clients),
		Reason:    k.Reason,
		Intervals: intervals,
	}
}

func crossoverObject(c *analysis.Crossover) CrossoverObject {
	intervals := IntervalsByField{}
	return CrossoverObject{
		Part: c.Part, A: c.A, B: c.B, Clients: c.Clients,
		Bytes:      intervals.take("bytes", c.Bytes),
		Kind:       c.Kind,
		SizeBefore: c.SizeBefore, SizeAfter: c.SizeAfter,
		Before: Number(c.Before), After: Number(c.After),
		Intervals: intervals,
	}
}

func limitObject(l *analysis.LimitEffect) LimitObject {
	intervals := IntervalsByField{}
	return LimitObject{
		Part: l.Part, Without: l.Without, With: l.With,
		RequestBytes: l.RequestBytes, Clients: l.Clients, Limit: l.Limit,
		ThroughputRatio:   intervals.take("throughput_ratio", l.ThroughputRatio),
		MeanServiceRatio:  intervals.take("mean_service_ratio", l.MeanServiceRatio),
		MeanResponseRatio: intervals.take("mean_response_ratio", l.MeanResponseRatio),
		TailWithout:       Number(l.TailWithout),
		TailWithService:   Number(l.TailWithService),
		TailWithResponse:  Number(l.TailWithResponse),
		P50Without:        Number(l.P50WithoutUS), P99Without: Number(l.P99Without),
		P50With: Number(l.P50WithUS), P99With: Number(l.P99WithUS),
		Intervals: intervals,
	}
}

func warmUpObject(w *analysis.WarmUpNeed) WarmUpObject {
	intervals := IntervalsByField{}
	needed, calls, first := w.Needed, w.NeededCalls, w.FirstOver
	if w.Settled == 0 {
		needed, calls = none, none
	}
	if first.Value == 0 { // no ratio is 0: there was nothing to divide by
		first = none
	}
	return WarmUpObject{
		Part: w.Part, Variant: w.Variant, RequestBytes: w.RequestBytes, Clients: w.Clients,
		Trials: w.Trials, Settled: w.Settled,
		NeededMS:       intervals.take("needed_ms", needed),
		NeededRequests: intervals.take("needed_requests", calls),
		FirstOver:      intervals.take("first_over_settled", first),
		Intervals:      intervals,
	}
}
