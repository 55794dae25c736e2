package load

import (
	"context"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
)

// A Step is one measurement of a search. A search that runs elsewhere gives its steps to a load by
// Controls.GiveStep.
type Step struct {
	// Number counts the steps of a load, from 1.
	Number int `json:"number,omitempty"`
	// Best is the number of the best step so far. Its measurement is the load's result, unless a better
	// one follows. 0 means that there is none yet.
	Best int `json:"best,omitempty"`
	// DurationNS is the length of the window. A step without one measures nothing: it ends the search.
	DurationNS int64 `json:"duration_ns,omitempty"`
	// RatePerSecond is the constant rate of all clients together. 0 means a closed loop.
	RatePerSecond   float64 `json:"rate_per_second,omitempty"`
	WarmUpAtLeastNS int64   `json:"warm_up_at_least_ns,omitempty"`
	WarmUpAtMostNS  int64   `json:"warm_up_at_most_ns,omitempty"`
}

// Of returns the plan of the step for a load.
func (s *Step) Of(p Plan) Plan {
	p.Duration = time.Duration(s.DurationNS)
	p.WarmUp = WarmUp{AtLeast: time.Duration(s.WarmUpAtLeastNS), AtMost: time.Duration(s.WarmUpAtMostNS)}
	if s.RatePerSecond > 0 {
		p.Open = &Arrivals{RatePerSecond: s.RatePerSecond, Spread: true}
	} else {
		p.Open, p.KeepSamples, p.OnOpen, p.OnClose = nil, false, nil, nil
	}
	return p
}

// stepOpenLead is the time from the longest warm-up of a given step to its window. In this time every
// load sees that its warm-up is over, so that all windows open at one instant.
const stepOpenLead = 25 * time.Millisecond

// OpensAfter returns the time from the first call of a given step to its window.
func (s *Step) OpensAfter() time.Duration { return time.Duration(s.WarmUpAtMostNS) + stepOpenLead }

type givenStep struct {
	Step
	at int64
}

// GiveStep gives a load its next step. The first call is sent at an instant, and the window opens at
// another (OpensAfter). A step that was given before, and that the load has not begun, is lost.
func (c *Controls) GiveStep(s Step, at int64) { c.step.Store(&givenStep{s, at}) }

// AwaitStep waits for the next step, and gives the cues for it. It calls report a few times per
// second.
func (c *Controls) AwaitStep(ctx context.Context, report func(live.Progress)) (Step, error) {
	for last := int64(0); ; {
		if given := c.step.Swap(nil); given != nil {
			opens := given.at + int64(given.OpensAfter())
			c.goAt.Store(&given.at)
			c.openAt.Store(&opens)
			return given.Step, nil
		}
		if now := clock.Now(); report != nil && now-last >= int64(reportPeriod) {
			last = now
			report(live.Progress{Warming: true})
		}
		select {
		case <-ctx.Done():
			return Step{}, context.Cause(ctx)
		case <-time.After(waitingTick):
		}
	}
}
