package body

import (
	"context"
	"errors"
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

// runClient opens the client's connections, runs the load and prints the result.
// turnsOf returns the span of a worker's turns, once it is known.
func turnsOf(controls *load.Controls) func() probe.Span {
	return func() (turns probe.Span) {
		turns.BeginNS, turns.EndNS = controls.CostSpan()
		return turns
	}
}

func runClient(ctx context.Context, spec *task, controls *load.Controls, events *eventPrinter) error {
	if program, foreign := stack.ForeignClient(spec.variant); foreign {
		return runForeignClient(ctx, spec, program, events)
	}
	if spec.Client.Load.Model != scenario.Closed {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + extraSpinThreads)
	}
	own := load.OwnCost(ctx)
	conns, err := connect(ctx, spec)
	if err != nil {
		return err
	}
	defer conns.close()
	plan, err := spec.loadPlan(conns.callers, events)
	if err != nil {
		return err
	}
	plan.OwnConnections = conns.ownConnections
	conns.planStreams(&plan)
	plan.Controls, plan.Live, plan.Intervals = controls, spec.Client.Live, spec.printedIntervals(events)
	if err := events.printReady(worker.Ready{Address: spec.Address, Settings: conns.settings}); err != nil {
		return err
	}
	window := windowCounters{conns: conns}
	window.readAtEdges(&plan)
	sampler := probe.StartSamplerWithTurns(probe.WithStoppedTime(probe.ReadSelf), probe.DefaultSamplingPeriod, turnsOf(controls))
	allocations, tracing := spec.watchAllocations(), spec.startTracing(false)
	stacks, err := spec.profileCPU()
	if err != nil {
		return err
	}
	measured, err := spec.runLoad(ctx, plan, events, window.keepWindow)
	allocated, usage := allocations(), sampler.Stop()
	onCPU, stacksErr := stacks()
	if err := errors.Join(err, stacksErr, tracing.Stop()); err != nil {
		return err
	}
	defer measured.Close()
	if err := measured.Encode(); err != nil {
		return err
	}
	result := spec.clientResult(measured, usage)
	negotiated := conns.dialer.Negotiated()
	result.Negotiated = &negotiated
	result.Checking, result.Streams = conns.checkingCost(), conns.streams()
	result.Outside = conns.requestsOutside(&result.Measurement)
	var recorded worker.CallInstants
	for _, calls := range conns.calls {
		recorded = append(recorded, calls.allCalls().BetweenInstants(result.BeginNS, result.EndNS)...)
	}
	result.Calls = recorded.Plus(nil)
	result.CPU = onCPU
	result.EngineOwnNS, result.Allocations = own, allocated
	result.Allowance = allowanceOf(os.Getpid())
	if err := window.fillResult(result, spec.Client.Clients); err != nil {
		return err
	}
	alive := func() { events.printProgress(live.Progress{Done: result.Requests, Fraction: 1}) }
	// Counting bytes makes calls, which a probe or a user's service would notice.
	if spec.Probe == "" && conns.service == nil {
		if result.Census, err = conns.countBytes(ctx, alive); err != nil {
			result.CensusFailed = err.Error()
		}
	}
	if err := worker.WriteSamples(spec.Client.SamplesFile, measured.Samples); err != nil {
		result.SamplesFailed = err.Error()
	}
	return events.printEvent(worker.Event{Event: "result", Result: &worker.Result{Client: result}})
}

// loadPlan returns the load plan of the spec with these callers.
func (s *task) loadPlan(callers []workload.Caller, events *eventPrinter) (load.Plan, error) {
	p, err := s.LoadPlan()
	p.Classify = classifyError
	p.Report = events.printProgress
	for _, c := range callers {
		p.Callers = append(p.Callers, c)
	}
	return p, err
}

// printedIntervals returns intervals that are printed when they end. It returns nil if the spec
// asks for none.
func (s *task) printedIntervals(events *eventPrinter) *load.Intervals {
	if s.Client.IntervalNS <= 0 {
		return nil
	}
	encoder := &latency.CoarseEncoder{}
	return &load.Intervals{Every: time.Duration(s.Client.IntervalNS), Report: func(i load.Interval) {
		interval := worker.Interval{StartNS: i.StartNS, TookNS: i.TookNS, Ended: i.Responses.Count(), Failed: i.Failed}
		if interval.Ended > 0 {
			interval.Histogram, _ = encoder.Encode(i.Responses) // writing to memory cannot fail
		}
		// If printing fails, printing the result will fail, too, and report the error.
		_ = events.printEvent(worker.Event{Event: "interval", Interval: &interval})
	}}
}

// classifyError returns the class and the code of a failed call's error.
func classifyError(err error) record.ErrorCount {
	if errors.Is(err, load.ErrWrongAnswer) {
		wrong := record.ErrorCount{Class: string(failure.WrongAnswer), Code: wrongAnswerCode}
		if unmet, is := errors.AsType[*expect.UnmetError](err); is {
			wrong.Code = unmet.Condition
		}
		return wrong
	}
	if told, is := errors.AsType[*service.StatusError](err); is {
		return record.ErrorCount{Class: string(failure.Application), Code: told.Code()}
	}
	if end, is := errors.AsType[*service.EndError](err); is {
		return record.ErrorCount{Class: string(end.Class), Code: end.Reason}
	}
	return record.ErrorCount{Class: string(failure.Of(err)), Code: status.Code(err).String()}
}

// clientResult converts a measurement into the form of the worker contract.
func (s *task) clientResult(m *load.Result, usage probe.Series) *worker.ClientResult {
	r := &worker.ClientResult{
		Measurement: m.Measurement, BeginNS: m.Begin, EndNS: m.End, CostBeforeNS: m.CostBefore, CostAfterNS: m.CostAfter, BetweenNS: int64(m.Between), Failures: m.Failures,
	}
	r.WarmUp.Method = worker.WarmUpMethod
	switch {
	case s.Client.Load.WarmUpAtMostNS <= 0:
		r.WarmUp.Method = "none"
	case s.Client.Load.Model == scenario.Search:
		// A step is too short for a warm-up of its own, and earlier steps have warmed up.
		r.WarmUp.Method = "fixed"
	}
	// The CPU time of each stretch is known only if the client neither spun nor paused.
	if c := r.Course; c != nil && m.Pauses == 0 && len(m.Slices) == 0 && (m.Pacing == nil || m.Pacing.SpunNS == 0) {
		c.ClientCPUNS = usage.CPUPerInterval(m.Begin+c.BeginNS, c.StretchNS, len(c.Calls))
	}
	if window, err := usage.Between(r.CostSpan()); err == nil {
		r.Usage = &window
		if m.Pacing != nil {
			subtractPacing(&window, m.Pacing.SpunNS)
		}
	}
	return r
}

// subtractPacing subtracts the CPU time that the client spun while it waited for its schedule: the
// stack did not cause this cost. Spinning takes mostly user time; the kernel's part is unknown.
func subtractPacing(u *probe.Window, spunNS int64) {
	user := min(u.UserNS, spunNS)
	u.UserNS -= user
	u.SystemNS -= min(u.SystemNS, spunNS-user)
}

// maxBurstWindow limits the window of a burst. The window normally ends with the last answer.
const maxBurstWindow = time.Minute

// warmUpCallers is the number of callers that warm up before a burst or a ramp. It is large enough
// to open connections and grow goroutine stacks, but too small to act as a burst.
const warmUpCallers = 64

// runLoad runs the plan as its load model says. A search calls kept after each best step so far.
func (s *task) runLoad(ctx context.Context, plan load.Plan, events *eventPrinter, kept func()) (*load.Result, error) {
	warms := plan.WarmUp.AtMost > 0
	if s.Client.Group != nil {
		plan.Begins = load.OnGoControl
		if warms || s.Client.Load.Model == scenario.Search {
			plan.Opens = load.OnOpenControl
		}
	}
	if s.Client.Block {
		plan.Opens = load.OnSlices
	}
	switch l := s.Client.Load; {
	case l.Model == scenario.Burst, l.Model == scenario.Ramp, l.TotalRequests > 0:
		warm, err := warmUp(ctx, plan)
		if err != nil {
			return nil, err
		}
		if l.Model == scenario.Burst {
			plan.Duration = maxBurstWindow
		}
		plan.WarmUp = load.WarmUp{}
		if warms {
			plan.Begins = plan.Opens
		}
		plan.Opens = load.WithoutCue
		measured, err := load.Run(ctx, plan)
		if err == nil {
			measured.WarmUp = warm
		}
		return measured, err
	case l.Model == scenario.Search:
		client := &search.Client{Plan: plan, OnKept: kept}
		if s.Client.Group != nil {
			return runSteps(ctx, client, events)
		}
		return client.Search(ctx, search.Goal{Quantile: l.GoalQuantile, Limit: time.Duration(l.GoalNS)})
	default:
		return load.Run(ctx, plan)
	}
}

// runSteps runs the steps of a search that others make, and prints what it measured in each. It
// returns the measurement of the best step.
func runSteps(ctx context.Context, client *search.Client, events *eventPrinter) (*load.Result, error) {
	for last := 0; ; {
		step, err := client.Plan.Controls.AwaitStep(ctx, client.Plan.Report)
		if err != nil {
			return nil, err
		}
		if step.Best > 0 && step.Best == last {
			client.Keep()
		}
		if step.DurationNS == 0 {
			if best := client.Best(); best != nil {
				return best, nil
			}
			return nil, load.ErrNothingMeasured
		}
		last = step.Number
		result := worker.StepResult{Number: step.Number}
		measured, err := client.Run(ctx, step)
		if err == nil {
			err = measured.Encode()
		}
		switch {
		case err == nil:
			result.Client = stepMeasurement(measured)
		case !errors.Is(err, load.ErrNothingMeasured):
			return nil, err
		}
		if err := events.printEvent(worker.Event{Event: "step", Step: &result}); err != nil {
			return nil, err
		}
	}
}

// stepMeasurement returns the part of a measurement by which a search decides.
func stepMeasurement(m *load.Result) *worker.ClientResult {
	r := &worker.ClientResult{Measurement: m.Measurement, BeginNS: m.Begin, EndNS: m.End, Failures: m.Failures}
	r.Course, r.ByConnection, r.Named, r.ByAddress, r.Traces, r.Answers = nil, nil, nil, nil, nil, nil
	return r
}

// warmUp warms up for a load without a warm-up of its own: at the rate of a load with a number of
// requests, and otherwise by a closed loop with some of the callers.
func warmUp(ctx context.Context, plan load.Plan) (record.WarmUp, error) {
	if plan.WarmUp.AtMost <= 0 {
		return record.WarmUp{}, nil
	}
	before := plan
	before.Duration, before.Opens, before.KeepSamples = time.Millisecond, load.WithoutCue, false
	before.OnOpen, before.OnClose = nil, nil
	if plan.Open.Total > 0 {
		before.Open = &load.Arrivals{RatePerSecond: plan.Open.RatePerSecond, Own: plan.Open.Own, Poisson: plan.Open.Poisson, Seed: plan.Open.Seed}
	} else {
		before.Callers, before.Open, before.Group, before.InFlight = plan.Callers[:min(len(plan.Callers), warmUpCallers)], nil, nil, 0
	}
	warm, err := load.Run(ctx, before)
	if err != nil {
		return record.WarmUp{}, err
	}
	defer warm.Close()
	return warm.WarmUp, nil
}
