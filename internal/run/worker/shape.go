package worker

import (
	"context"
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// The load models of the contract.
const (
	closedLoop = "closed"
	openLoop   = "open"
	burst      = "burst"
	ramp       = "ramp"
	search     = "search"
)

// burstAtMost limits the window of a burst, which ends with the last answer.
const burstAtMost = time.Minute

// warmUpCallers is the number of callers that warm up before a burst or a ramp: enough to
// open connections and grow stacks, but not a burst themselves.
const warmUpCallers = 64

// arrivals returns the schedule of the spec's load; nil for a closed loop, and for a
// search, which makes its own.
func (s *Spec) arrivals() (*load.Arrivals, error) {
	l := s.Client.Load
	poisson := l.Arrivals == "poisson"
	if (l.Model == openLoop || l.Model == ramp) && l.Arrivals != "constant" && !poisson {
		return nil, fmt.Errorf("worker spec: arrivals %q: want constant or poisson", l.Arrivals)
	}
	switch l.Model {
	case closedLoop, search:
		return nil, nil
	case openLoop:
		return &load.Arrivals{RatePerSecond: l.RatePerSecond, Poisson: poisson, Seed: s.Client.Seed}, nil
	case ramp:
		return &load.Arrivals{RatePerSecond: l.RatePerSecond, RampTo: l.RampTo, Poisson: poisson, Seed: s.Client.Seed}, nil
	case burst:
		return &load.Arrivals{Burst: l.Burst}, nil
	default:
		return nil, fmt.Errorf("worker spec: load model %q: want closed, open, burst, ramp or search", l.Model)
	}
}

// load runs the plan in the way of the load model. A search calls kept when the window
// that has just ended is, so far, the one that it returns.
func (s *Spec) load(ctx context.Context, plan load.Plan, kept func()) (*load.Result, error) {
	warms := plan.WarmUp.AtMost > 0
	if s.Client.Group != nil {
		plan.Begins = load.OnGo
		if warms {
			plan.Opens = load.OnOpen
		}
	}
	switch l := s.Client.Load; l.Model {
	case burst, ramp:
		warm, err := warmUp(ctx, plan)
		if err != nil {
			return nil, err
		}
		if l.Model == burst {
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
	case search:
		return load.Search(ctx, load.SearchPlan{
			Plan:   plan,
			Goal:   load.Goal{Quantile: l.GoalQuantile, Limit: time.Duration(l.GoalNS)},
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
