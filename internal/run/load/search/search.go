// Package search finds the highest rate of a load that meets a goal, by loads of package load at
// one rate after another. It must not know what the load calls.
package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// A Plan describes a search for the highest constant rate that meets a goal.
type Plan struct {
	// Plan is the load of one step; Duration is a step's window, which is longer where
	// the goal's quantile needs more requests. The search sets Open and WarmUp.
	load.Plan
	Goal Goal
	// OnKept, if not nil, is called when the step that has just ended is, so far, the
	// one whose measurement the search returns.
	OnKept func()
}

// A Goal says which rates count as sustained: a quantile of the response time is below a
// limit, every arrival is sent, and at most 0.1 % fail.
type Goal struct {
	Quantile float64       // as in 0.99
	Limit    time.Duration // of the response time at that quantile
}

// ErrNoRate is wrapped by the error if even the lowest rate missed the goal.
var ErrNoRate = errors.New("no rate meets the goal")

const (
	// precision is the relative difference between the highest rate that met the goal and the
	// lowest that missed it at which the halving ends.
	precision = 0.01
	// The search begins with a closed loop of all clients: its throughput is
	// about the highest possible rate.
	probeDuration = 500 * time.Millisecond
	// The search fails below this share of that rate.
	leastShare = 1.0 / 100
	// The limit of steps before the refinement, however noisy the machine is.
	mostSteps = 60
	// refinements is the number of tries on either side of the threshold, after the halving. They
	// show how far single tries scatter. At 2 % noise, the threshold's interval would be twice as
	// wide without them (and hold it in 99 %); with 14 it would be a quarter narrower.
	refinements = 8
)

// Run finds the highest rate that meets the goal. It raises or lowers the rate by a quarter until
// the outcome changes, and then halves the interval between. An outcome counts when two of up to
// tries agree, since a busy machine can spoil one. In the end it tries rates around the threshold,
// at which half of the tries meet the goal, to find how exactly the threshold is known. The
// result is the measurement of the highest rate that won its vote; its Search lists the tries.
func Run(ctx context.Context, p Plan) (*load.Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := &searcher{plan: p}
	s.try = s.measure
	most, err := s.probe(ctx)
	if err == nil {
		err = s.searchBelow(ctx, most)
	}
	return s.finish(err)
}

// finish returns the best measurement. A search that was told to end succeeds if it also knows a
// rate that missed the goal.
func (s *searcher) finish(err error) (*load.Result, error) {
	if errors.Is(err, load.ErrNothingMeasured) && s.best != nil && s.found.MissedPerSecond > 0 {
		s.found.Why, s.best.EndedEarly, err = "it was told to end", true, nil
	}
	if err != nil {
		if s.best != nil {
			s.best.Close()
		}
		return nil, err
	}
	s.best.Search = &s.found
	return s.best, nil
}

func (p *Plan) check() error {
	switch {
	case !(p.Goal.Quantile > 0 && p.Goal.Quantile < 1):
		return fmt.Errorf("load: a goal at quantile %v: want one between 0 and 1", p.Goal.Quantile)
	case p.Goal.Limit <= 0:
		return fmt.Errorf("load: a goal of %v: want a time above zero", p.Goal.Limit)
	case p.Duration <= 0:
		return errors.New("load: a search needs the duration of its steps")
	}
	return nil
}

// A searcher holds the state of a search. All rates are in requests per second.
type searcher struct {
	plan  Plan
	try   func(ctx context.Context, rate float64) (*load.Result, record.Step, error) // measures one step
	found record.Search
	best  *load.Result // won the vote of found.KeptPerSecond
}

// searchBelow finds the highest rate that meets the goal, from about the highest possible rate.
func (s *searcher) searchBelow(ctx context.Context, most float64) error {
	if err := s.bracket(ctx, most); err != nil {
		return err
	}
	if err := s.halve(ctx); err != nil {
		return err
	}
	return s.refine(ctx)
}

// probe returns the throughput of a closed loop of all clients.
func (s *searcher) probe(ctx context.Context) (float64, error) {
	plan := s.plan.Plan
	plan.Duration, plan.KeepSamples = probeDuration, false
	plan.OnOpen, plan.OnClose = nil, nil
	plan.WarmUp = load.WarmUp{AtLeast: probeDuration / 2, AtMost: 2 * probeDuration}
	r, err := load.Run(ctx, plan)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	most := float64(r.Completed) / time.Duration(r.End-r.Begin).Seconds()
	if most <= 0 {
		return 0, fmt.Errorf("%w: a closed loop of all clients got no answer within %v", ErrNoRate, probeDuration)
	}
	return most, nil
}

// bracket finds a rate that meets the goal and a higher one that misses it.
func (s *searcher) bracket(ctx context.Context, most float64) error {
	const stride = 1.25
	for rate := 0.8 * most; s.found.KeptPerSecond == 0 || s.found.MissedPerSecond == 0; {
		if err := s.tooLow(rate, most); err != nil {
			return err
		}
		kept, err := s.decide(ctx, rate)
		if err != nil {
			return err
		}
		if kept {
			rate *= stride
		} else {
			rate /= stride
		}
	}
	return nil
}

// tooLow returns an error if no lower rate may be tried.
func (s *searcher) tooLow(rate, most float64) error {
	tooShort := s.plan.stepTooShort(rate)
	switch missed := len(s.found.Steps) > 0; {
	case missed && rate < most*leastShare:
		return fmt.Errorf("%w: at %.4g per second, %s", ErrNoRate, s.found.MissedPerSecond, s.found.Steps[len(s.found.Steps)-1].Why)
	case missed && tooShort != nil:
		return fmt.Errorf("%w: at %.4g per second, %s; no lower rate can be tried: %w", ErrNoRate, s.found.MissedPerSecond, s.found.Steps[len(s.found.Steps)-1].Why, tooShort)
	case tooShort != nil:
		return fmt.Errorf("the goal cannot be judged: %w", tooShort)
	}
	return nil
}

// halve divides the interval between the rates that met and missed the goal until they are close.
func (s *searcher) halve(ctx context.Context) error {
	for s.apart() > precision {
		if len(s.found.Steps) >= mostSteps {
			s.found.Why = fmt.Sprintf("after %d steps the highest rate that met the goal and the lowest that missed it were still %.1f %% apart", mostSteps, 100*s.apart())
			return nil
		}
		if _, err := s.decide(ctx, math.Sqrt(s.found.KeptPerSecond*s.found.MissedPerSecond)); err != nil {
			return err
		}
	}
	return nil
}

func (s *searcher) apart() float64 { return s.found.MissedPerSecond/s.found.KeptPerSecond - 1 }

// decide tries a rate until two tries of up to three agree. The try that wins the vote is kept.
func (s *searcher) decide(ctx context.Context, rate float64) (bool, error) {
	votes := map[bool]int{}
	for {
		r, step, err := s.try(ctx, rate)
		if err != nil {
			return false, err
		}
		s.found.Steps = append(s.found.Steps, step)
		if votes[step.Kept]++; votes[step.Kept] < 2 {
			r.Close()
			continue
		}
		if step.Kept {
			s.keep(r, rate)
		} else {
			r.Close()
			s.found.MissedPerSecond = rate
		}
		return step.Kept, nil
	}
}

// keep stores the measurement of a rate that is higher than those kept before.
func (s *searcher) keep(r *load.Result, rate float64) {
	if s.best != nil {
		s.best.Close()
	}
	s.best, s.found.KeptPerSecond = r, rate
	if s.plan.OnKept != nil {
		s.plan.OnKept()
	}
}

// refine tries rates one deviation above and below the threshold, where tries say most about
// the threshold and the deviation. It decides nothing.
func (s *searcher) refine(ctx context.Context) error {
	for i := range refinements {
		threshold, err := stats.FindThreshold(tries(s.found.Steps), 0.5)
		if err != nil {
			return fmt.Errorf("load: a search after %d steps: %w", len(s.found.Steps), err)
		}
		rate := threshold.Estimate * math.Exp(threshold.Noise)
		if i%2 == 1 {
			rate = threshold.Estimate * math.Exp(-threshold.Noise)
		}
		if s.plan.stepTooShort(rate) != nil {
			continue
		}
		r, step, err := s.try(ctx, rate)
		if err != nil {
			return err
		}
		r.Close()
		s.found.Steps = append(s.found.Steps, step)
	}
	return nil
}

// tries returns the outcomes of the steps.
func tries(steps []record.Step) []stats.Try {
	return lists.Map(steps, func(s record.Step) stats.Try { return stats.Try{Level: s.RatePerSecond, Passed: s.Kept} })
}

const (
	// goalFailures is the share of failed requests above which a rate misses the goal.
	goalFailures = 0.001
	// goalBehind is the share of the arrivals that may still wait to be sent at the end
	// of a step that is too short to tell how its rate varies.
	goalBehind = 0.05
	// leastBeyond is the number of requests that must lie beyond a quantile for it to judge
	// a step: with ten, the share beyond it is known to a third.
	leastBeyond = 10
	// longestStep limits a step that lasts longer to get that many requests, in its durations.
	longestStep = 10
)

// leastRequests is the number of requests from which the goal's quantile can be judged.
func (g Goal) leastRequests() float64 { return math.Ceil(leastBeyond / (1 - g.Quantile)) }

// judgeable returns how long a step at the rate lasts until its quantile can be judged.
func (p *Plan) judgeable(rate float64) time.Duration {
	return time.Duration(math.Ceil(p.Goal.leastRequests() / rate * float64(time.Second)))
}

// stepTooShort returns an error if not even the longest step judges the rate.
func (p *Plan) stepTooShort(rate float64) error {
	need := p.judgeable(rate)
	if need <= longestStep*p.Duration {
		return nil
	}
	return fmt.Errorf("judging P%g needs %.0f requests (%d beyond it), which at %.4g per second take %v; a step of %v may last at most %d times as long: set a duration of %v or more, or a lower percentile",
		100*p.Goal.Quantile, p.Goal.leastRequests(), leastBeyond, rate, need.Round(time.Millisecond), p.Duration, longestStep, (need/longestStep).Round(time.Millisecond)+time.Millisecond)
}

// measure runs one step and judges it.
func (s *searcher) measure(ctx context.Context, rate float64) (*load.Result, record.Step, error) {
	plan := s.plan.Plan
	plan.Open = &load.Arrivals{RatePerSecond: rate}
	plan.Duration = max(plan.Duration, s.plan.judgeable(rate))
	settle := min(plan.Duration/4, 200*time.Millisecond)
	plan.WarmUp = load.WarmUp{AtLeast: settle, AtMost: settle}
	r, err := load.Run(ctx, plan)
	if err != nil {
		return nil, record.Step{}, err
	}
	if r.EndedEarly {
		r.Close()
		return nil, record.Step{}, fmt.Errorf("at %.4g per second: %w", rate, load.ErrNothingMeasured)
	}
	return r, s.plan.Goal.judge(rate, r), nil
}

// judge compares one step with the goal.
func (g Goal) judge(rate float64, r *load.Result) record.Step {
	var failed int64
	for _, f := range r.Failures {
		failed += f.Count
	}
	figure := r.ResponseTimes().Quantile(g.Quantile)
	step := record.Step{
		RatePerSecond:     rate,
		AchievedPerSecond: float64(r.Completed-min(failed, r.Completed)) / time.Duration(r.End-r.Begin).Seconds(),
		FigureNS:          int64(figure),
		Requests:          r.Requests,
	}
	switch {
	case r.Requests == 0:
		step.Why = "nothing was answered"
	case r.Pacing.Unsent > 0:
		step.Why = fmt.Sprintf("%d arrivals were never sent", r.Pacing.Unsent)
	case float64(failed) > goalFailures*float64(r.Requests):
		step.Why = fmt.Sprintf("%d of %d requests failed", failed, r.Requests)
	case beyondCapacity(rate, r):
		step.Why = fmt.Sprintf("beyond capacity: %d requests arrived and %d were answered, ever later", r.Pacing.Scheduled, r.Completed)
	case figure > g.Limit:
		step.Why = fmt.Sprintf("P%g of the response time was %v, above %v", 100*g.Quantile, figure.Round(time.Microsecond), g.Limit)
	default:
		step.Kept = true
	}
	return step
}

// beyondCapacity reports whether the backlog of a step grew, which a generous limit does
// not show in a short step.
func beyondCapacity(rate float64, r *load.Result) bool {
	grew := float64(r.Pacing.Scheduled - r.Completed)
	_, beyond, err := stats.Backlog{
		OfferedPerSecond: rate,
		ServedPerSecond:  r.ServedPerSecond(r.End-r.Begin, stepStretches),
		Grew:             grew,
		Mean:             r.ResponseTimes().Mean().Seconds() * rate,
	}.BeyondCapacity()
	if err != nil { // too short to see the rate vary
		return grew-r.InFlight > goalBehind*float64(r.Pacing.Scheduled)
	}
	return beyond
}

// stepStretches is the number of parts of a step, which show how its rate varies.
const stepStretches = 20
