package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"wirelab.dev/internal/failure"
	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/load"
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/grpcstack"
	"wirelab.dev/internal/workload"
)

// warmUpMethod says in a record how the warm-up's end was found.
const warmUpMethod = "MSER-5 over the throughput of 5 ms intervals"

// runClient connects, loads, and says what it measured.
func runClient(ctx context.Context, spec *Spec, events *emitter) error {
	variant, err := scenario.ParseVariant(spec.Stack)
	if err != nil {
		return err
	}
	if program, foreign := grpcstack.ForeignClient(variant); foreign {
		return runForeignClient(ctx, spec, program, events)
	}
	if spec.Client.Load.Model != closedLoop {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spinningThread)
	}
	noise := spinBefore()
	own := load.OwnCost(ctx)
	fleet, err := connect(ctx, spec)
	if err != nil {
		return err
	}
	defer fleet.close()
	plan, err := spec.plan(fleet.callers, events)
	if err != nil {
		return err
	}
	if err := events.ready(Ready{Address: spec.Address, Settings: fleet.settings}); err != nil {
		return err
	}
	window := edges{fleet: fleet}
	window.watch(&plan)
	sampler := probe.StartSampler(probe.Self, probe.DefaultPeriod)
	allocations := spec.watchAllocations()
	measured, found, err := spec.load(ctx, plan)
	allocated, usage := allocations(), sampler.Stop()
	if err != nil {
		return err
	}
	defer measured.Close()
	result, err := spec.result(measured, usage)
	if err != nil {
		return err
	}
	noise.spinAfter()
	negotiated := fleet.dialer.Negotiated()
	result.Negotiated = &negotiated
	result.EngineOwnNS, result.Noise, result.Search, result.Allocations = own, noise, found, allocated
	if err := window.fill(result, spec.Client.Clients); err != nil {
		return err
	}
	alive := func() {
		_ = events.emit(Event{Event: "progress", Progress: &Progress{Done: result.Requests, Fraction: 1}})
	}
	if allocated == nil { // else its calls would be counted at the server, and not here
		if result.Census, err = fleet.census(ctx, alive); err != nil {
			result.CensusFailed = err.Error()
		}
	}
	if err := keepSamples(spec.Client.SamplesFile, measured.Samples); err != nil {
		result.SamplesFailed = err.Error()
	}
	return events.emit(Event{Event: "result", Result: &Result{Client: result}})
}

// plan is the load of the spec over the given callers.
func (s *Spec) plan(callers []workload.Caller, events *emitter) (load.Plan, error) {
	l := s.Client.Load
	p := load.Plan{
		Requests:    l.RequestsPerClient,
		Extra:       l.ExtraRequests,
		Duration:    time.Duration(l.DurationNS),
		InFlight:    l.InFlightLimit,
		WarmUp:      load.WarmUp{AtLeast: time.Duration(l.WarmUpAtLeastNS), AtMost: time.Duration(l.WarmUpAtMostNS)},
		Drain:       time.Duration(l.DrainNS),
		KeepSamples: s.Client.SamplesFile != "",
		Classify:    classify,
		Report: func(p load.Progress) {
			progress := Progress(p)
			// Where it cannot be printed, nobody reads it; the result's
			// own line will say so.
			_ = events.emit(Event{Event: "progress", Progress: &progress})
		},
	}
	for _, c := range callers {
		p.Callers = append(p.Callers, c)
	}
	var err error
	p.Open, err = s.arrivals()
	return p, err
}

// keepSamples writes the samples, and the folder that they go into; with no
// path nobody asked for them.
func keepSamples(path string, samples []*latency.SampleLog) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return latency.WriteParquet(path, samples)
}

// classify tells failed calls apart by code and class. The engine counts under
// one key.
func classify(err error) (key string) {
	code, class := status.Code(err).String(), failure.Of(err)
	if errors.Is(err, load.ErrWrongAnswer) {
		code, class = "WrongAnswer", failure.WrongAnswer
	}
	return code + keySeparator + string(class)
}

// keySeparator is in no code's name.
const keySeparator = " "

// callFailure is what the engine counted under a key of classify.
func callFailure(f load.Failure) record.ErrorCount {
	code, class, _ := strings.Cut(f.Class, keySeparator)
	return record.ErrorCount{Class: class, Code: code, Count: f.Count, Example: f.Example}
}

// result puts what was measured into the contract's form.
func (s *Spec) result(m *load.Result, usage probe.Series) (*ClientResult, error) {
	r := &ClientResult{
		BeginNS: m.Begin, EndNS: m.End, BetweenNS: int64(m.Between),
		Measurement: record.Measurement{
			Requests: m.Requests, Completed: m.Completed, Straddling: m.Straddling, StraddlingNS: int64(m.Straddled),
			InFlight: m.InFlight, Active: m.Active,
			WarmUp: record.WarmUp{TookNS: int64(m.Warm.Took), Requests: m.Warm.Requests, Settled: m.Warm.Settled, Method: warmUpMethod},
		},
	}
	switch {
	case s.Client.Load.WarmUpAtMostNS <= 0:
		r.WarmUp.Method = "none"
	case s.Client.Load.Model == search:
		r.WarmUp.Method = "fixed" // a step is short, and follows another
	}
	if m.Warm.Known {
		enough := int64(m.Warm.Enough)
		r.WarmUp.EnoughNS, r.WarmUp.EnoughRequests = &enough, &m.Warm.EnoughRequests
	}
	for _, f := range m.Failures {
		r.Failures = append(r.Failures, callFailure(f))
	}
	for _, i := range m.Intervals {
		r.Intervals = append(r.Intervals, record.Interval{
			StartNS: i.Start - m.Begin, TookNS: int64(i.Took), Requests: i.Requests, SumNS: int64(i.Sum),
		})
	}
	var err error
	if r.Service, err = m.Service.Distribution(); err != nil {
		return nil, err
	}
	if r.Response, err = distribution(m.Response); err != nil {
		return nil, err
	}
	if r.Wait, err = distribution(m.Wait); err != nil {
		return nil, err
	}
	if m.Late != nil {
		late, err := m.Late.Distribution()
		if err != nil {
			return nil, err
		}
		r.Pacing = &record.Pacing{
			Scheduled: m.Requests + m.Unsent, Late: late, Queued: m.Queued, Unsent: m.Unsent, SpunNS: int64(m.Spun),
		}
	}
	if window, err := usage.Between(m.Begin, m.End); err == nil {
		r.Usage = withoutPacing(window, m.Spun)
	}
	return r, nil
}

// withoutPacing leaves out what waiting for instants burned: that is the
// instrument's cost, not the stack's. It is mostly user time; the kernel's part,
// yielding the CPU, is not known apart.
func withoutPacing(u probe.Window, spun time.Duration) *probe.Window {
	user := min(u.UserNS, int64(spun))
	u.UserNS -= user
	u.SystemNS -= min(u.SystemNS, int64(spun)-user)
	return &u
}

func distribution(h *latency.Histogram) (*latency.Distribution, error) {
	if h == nil {
		return nil, nil
	}
	d, err := h.Distribution()
	return &d, err
}
