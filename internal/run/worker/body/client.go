package body

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/load/search"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload"
)

// runClient connects, loads, and reports what it measured.
func runClient(ctx context.Context, spec *task, controls *load.Controls, events *emitter) error {
	if program, foreign := stack.ForeignClient(spec.variant); foreign {
		return runForeignClient(ctx, spec, program, events)
	}
	if spec.Client.Load.Model != scenario.Closed {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spinningThread)
	}
	noise := spinBefore()
	own := load.OwnCost(ctx)
	conns, err := connect(ctx, spec)
	if err != nil {
		return err
	}
	defer conns.close()
	plan, err := spec.plan(conns.callers, events)
	if err != nil {
		return err
	}
	plan.Controls, plan.Live, plan.Intervals = controls, spec.Client.Live, spec.intervals(events)
	if err := events.ready(worker.Ready{Address: spec.Address, Settings: conns.settings}); err != nil {
		return err
	}
	window := edges{conns: conns}
	window.watch(&plan)
	sampler := probe.StartSampler(probe.WithStops(probe.Self), probe.DefaultPeriod)
	allocations := spec.watchAllocations()
	stacks, err := spec.profileCPU()
	if err != nil {
		return err
	}
	measured, err := spec.load(ctx, plan, window.keep)
	allocated, usage := allocations(), sampler.Stop()
	onCPU, stacksErr := stacks()
	if err := errors.Join(err, stacksErr); err != nil {
		return err
	}
	defer measured.Close()
	if err := measured.Encode(); err != nil {
		return err
	}
	result := spec.result(measured, usage)
	spinAfter(noise)
	negotiated := conns.dialer.Negotiated()
	result.Negotiated = &negotiated
	result.Checking = conns.checking()
	if conns.calls != nil {
		result.Calls = conns.calls.all().Within(result.BeginNS, result.EndNS)
	}
	result.CPU = onCPU
	result.EngineOwnNS, result.Noise, result.Allocations = own, noise, allocated
	result.Allowance = allowance(os.Getpid())
	if err := window.fill(result, spec.Client.Clients); err != nil {
		return err
	}
	alive := func() { events.progress(live.Progress{Done: result.Requests, Fraction: 1}) }
	if spec.Probe == "" && conns.service == nil { // otherwise the server's figures would include these calls
		if result.Census, err = conns.census(ctx, alive); err != nil {
			result.CensusFailed = err.Error()
		}
	}
	if err := worker.KeepSamples(spec.Client.SamplesFile, measured.Samples); err != nil {
		result.SamplesFailed = err.Error()
	}
	return events.emit(worker.Event{Event: "result", Result: &worker.Result{Client: result}})
}

// plan returns the load of the spec for the given callers.
func (s *task) plan(callers []workload.Caller, events *emitter) (load.Plan, error) {
	p, err := s.Bounds()
	p.Classify = classify
	p.Report = events.progress
	for _, c := range callers {
		p.Callers = append(p.Callers, c)
	}
	return p, err
}

// intervals returns intervals that are printed when they end, or nil if the spec asks for none.
func (s *task) intervals(events *emitter) *load.Intervals {
	if s.Client.IntervalNS <= 0 {
		return nil
	}
	encoder := &latency.CoarseEncoder{}
	return &load.Intervals{Every: time.Duration(s.Client.IntervalNS), Report: func(i load.Interval) {
		interval := worker.Interval{StartNS: i.StartNS, TookNS: i.TookNS, Ended: i.Responses.Count(), Failed: i.Failed}
		if interval.Ended > 0 {
			interval.Histogram, _ = encoder.Encode(i.Responses) // it writes to memory, and cannot fail
		}
		// If it cannot be printed, printing the result will fail too.
		_ = events.emit(worker.Event{Event: "interval", Interval: &interval})
	}}
}

// classify returns the class and code of a failed call.
func classify(err error) record.ErrorCount {
	if errors.Is(err, load.ErrWrongAnswer) {
		wrong := record.ErrorCount{Class: string(failure.WrongAnswer), Code: wrongAnswerCode}
		if unmet, is := errors.AsType[*expect.Unmet](err); is {
			wrong.Code = unmet.Condition
		}
		return wrong
	}
	if told, is := errors.AsType[*service.StatusError](err); is {
		return record.ErrorCount{Class: string(failure.Application), Code: told.Code()}
	}
	return record.ErrorCount{Class: string(failure.Of(err)), Code: status.Code(err).String()}
}

// result returns the measurement in the contract's form.
func (s *task) result(m *load.Result, usage probe.Series) *worker.ClientResult {
	r := &worker.ClientResult{
		Measurement: m.Measurement, BeginNS: m.Begin, EndNS: m.End, BetweenNS: int64(m.Between), Failures: m.Failures,
	}
	r.WarmUp.Method = worker.WarmUpMethod
	switch {
	case s.Client.Load.WarmUpAtMostNS <= 0:
		r.WarmUp.Method = "none"
	case s.Client.Load.Model == scenario.Search:
		r.WarmUp.Method = "fixed" // a step is short, and follows another
	}
	if c := r.Course; c != nil && m.Pauses == 0 && (m.Pacing == nil || m.Pacing.SpunNS == 0) { // unknown when it waited for instants; and a course has no pauses
		c.ClientCPUNS = usage.Stretches(m.Begin+c.BeginNS, c.StretchNS, len(c.Calls))
	}
	if window, err := usage.Between(m.Begin, m.End); err == nil {
		r.Usage = &window
		if m.Pacing != nil {
			withoutPacing(&window, m.Pacing.SpunNS)
		}
	}
	return r
}

// withoutPacing subtracts the CPU time of waiting for instants: it is the
// instrument's cost, not the stack's. It is mostly user time; the kernel's part,
// yielding the CPU, is unknown.
func withoutPacing(u *probe.Window, spunNS int64) {
	user := min(u.UserNS, spunNS)
	u.UserNS -= user
	u.SystemNS -= min(u.SystemNS, spunNS-user)
}

// burstAtMost limits the window of a burst, which ends with the last answer.
const burstAtMost = time.Minute

// warmUpCallers is the number of callers that warm up before a burst or a ramp: enough to
// open connections and grow stacks, but not a burst themselves.
const warmUpCallers = 64

// load runs the plan in the way of the load model. A search calls kept whenever the window that
// has just ended is the best so far.
func (s *task) load(ctx context.Context, plan load.Plan, kept func()) (*load.Result, error) {
	warms := plan.WarmUp.AtMost > 0
	if s.Client.Group != nil {
		plan.Begins = load.OnGo
		if warms {
			plan.Opens = load.OnOpen
		}
	}
	switch l := s.Client.Load; l.Model {
	case scenario.Burst, scenario.Ramp:
		warm, err := warmUp(ctx, plan)
		if err != nil {
			return nil, err
		}
		if l.Model == scenario.Burst {
			plan.Duration = burstAtMost
		}
		plan.WarmUp = load.WarmUp{}
		if warms {
			plan.Begins = plan.Opens
		}
		plan.Opens = load.AtOnce
		measured, err := load.Run(ctx, plan)
		if err == nil {
			measured.WarmUp = warm
		}
		return measured, err
	case scenario.Search:
		return search.Run(ctx, search.Plan{
			Plan:   plan,
			Goal:   search.Goal{Quantile: l.GoalQuantile, Limit: time.Duration(l.GoalNS)},
			OnKept: kept,
		})
	default:
		return load.Run(ctx, plan)
	}
}

// warmUp runs a closed loop of some of the callers, before a load that cannot have a
// warm-up of its own.
func warmUp(ctx context.Context, plan load.Plan) (record.WarmUp, error) {
	if plan.WarmUp.AtMost <= 0 {
		return record.WarmUp{}, nil
	}
	callers := plan.Callers[:min(len(plan.Callers), warmUpCallers)]
	warm, err := load.Run(ctx, load.Plan{
		Callers: callers, WarmUp: plan.WarmUp, Duration: time.Millisecond, Drain: plan.Drain,
		Classify: plan.Classify, Report: plan.Report, Controls: plan.Controls, Live: plan.Live,
		Begins: plan.Begins, Intervals: plan.Intervals,
	})
	if err != nil {
		return record.WarmUp{}, err
	}
	defer warm.Close()
	return warm.WarmUp, nil
}

// Try connects like a client of the spec and makes one call, in this process. It does not check
// the answer, which a trial does. It tries nothing if another program makes the calls.
func Try(ctx context.Context, in *worker.Spec) error {
	spec, err := newTask(*in)
	if err != nil {
		return err
	}
	if _, foreign := stack.ForeignClient(spec.variant); foreign {
		return nil
	}
	conns, err := connect(ctx, spec)
	if err != nil {
		return err
	}
	defer conns.close()
	if err := conns.callers[0].Call(ctx); err != nil {
		return fmt.Errorf("call %s: %w", spec.Address, err)
	}
	return nil
}
