package body

import (
	"context"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/load/search"
)

// burstAtMost limits the window of a burst, which ends with the last answer.
const burstAtMost = time.Minute

// warmUpCallers is the number of callers that warm up before a burst or a ramp: enough to
// open connections and grow stacks, but not a burst themselves.
const warmUpCallers = 64

// load runs the plan in the way of the load model. A search calls kept when the window
// that has just ended is, so far, the one that it returns.
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
