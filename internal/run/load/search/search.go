// Package search finds the highest rate of a load that meets a goal. It runs loads of package load
// at one rate after another. It must not know what the load calls.
package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// A Plan describes a search for the highest constant rate that meets a goal.
type Plan struct {
	// Plan is the load of one step. Duration is a step's window; the search lengthens it if
	// the goal's quantile needs more requests. The search sets Open and WarmUp.
	load.Plan
	Goal Goal
	// OnKept, if not nil, is called when the step that has just ended is the best so far.
	// The search returns the measurement of the best step.
	OnKept func()
}

// A Goal says when a rate counts as sustained: a quantile of the response time is below a
// limit, every arrival is sent, and at most 0.1 % of the requests fail.
type Goal struct {
	Quantile float64       // for example 0.99
	Limit    time.Duration // the longest allowed response time at that quantile
}

// ErrNoRate is wrapped by the error of a search in which even the lowest rate missed the goal.
var ErrNoRate = errors.New("no rate meets the goal")

const (
	// precision is the relative difference at which the halving ends: between the highest rate
	// that met the goal and the lowest rate that missed it.
	precision = 0.01
	// closedLoopDuration is the window of the closed loop of all clients with which the search
	// begins. The throughput of this loop is about the highest possible rate.
	closedLoopDuration = 500 * time.Millisecond
	// minRateShare is the share of the closed loop's throughput below which the search fails.
	minRateShare = 1.0 / 100
	// maxSteps limits the steps before the refinement, however noisy the machine is.
	maxSteps = 60
	// refinementTries is the number of tries around the threshold, after the halving. They show
	// how far single tries scatter. At 2 % noise, the threshold's interval would be twice as wide
	// without them; with 14 tries it would be a quarter narrower.
	refinementTries = 8
)

// Run finds the highest rate that meets the goal. It raises or lowers the rate by a quarter until
// the outcome changes, and then halves the interval between the last two rates. An outcome counts
// when two of up to three tries agree, since a busy machine can spoil one. At the end it tries
// rates around the threshold, at which half of the tries meet the goal. These tries show how
// exactly the threshold is known. Run returns the measurement of the highest rate that met the
// goal; its Search lists the tries.
func Run(ctx context.Context, p Plan) (*load.Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := &searcher{plan: p}
	s.try = s.measureStep
	most, err := s.measureClosedLoop(ctx)
	if err == nil {
		err = s.searchBelow(ctx, most)
	}
	return s.finish(err)
}

// finish returns the best measurement. A search that was ended early succeeds if it also has found
// a rate that missed the goal.
func (s *searcher) finish(err error) (*load.Result, error) {
	if errors.Is(err, load.ErrNothingMeasured) && s.best != nil && s.found.MissedPerSecond > 0 {
		s.found.Why, s.best.EndedEarly, err = "the search was told to end", true, nil
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
		return fmt.Errorf("load: the goal of the search has the quantile %v: want a quantile between 0 and 1", p.Goal.Quantile)
	case p.Goal.Limit <= 0:
		return fmt.Errorf("load: the goal of the search has the time limit %v: want a time above zero", p.Goal.Limit)
	case p.Duration <= 0:
		return errors.New("load: the search has no duration: set the duration of its steps")
	}
	return nil
}

// A searcher holds the state of a search. All rates are in requests per second.
type searcher struct {
	plan  Plan
	try   func(ctx context.Context, rate float64) (*load.Result, record.Step, error) // measures one step
	found record.Search
	best  *load.Result // the measurement at the rate found.KeptPerSecond
}

// searchBelow finds the highest rate that meets the goal. most is about the highest possible rate.
func (s *searcher) searchBelow(ctx context.Context, most float64) error {
	if err := s.findBracket(ctx, most); err != nil {
		return err
	}
	if err := s.halveInterval(ctx); err != nil {
		return err
	}
	return s.refineThreshold(ctx)
}

// measureClosedLoop returns the throughput of a closed loop of all clients.
func (s *searcher) measureClosedLoop(ctx context.Context) (float64, error) {
	plan := s.plan.Plan
	plan.Duration, plan.KeepSamples = closedLoopDuration, false
	plan.OnOpen, plan.OnClose = nil, nil
	plan.WarmUp = load.WarmUp{AtLeast: closedLoopDuration / 2, AtMost: 2 * closedLoopDuration}
	r, err := load.Run(ctx, plan)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	most := float64(r.Completed) / time.Duration(r.End-r.Begin).Seconds()
	if most <= 0 {
		return 0, fmt.Errorf("%w: a closed loop of all clients got no answer within %v", ErrNoRate, closedLoopDuration)
	}
	return most, nil
}

// findBracket finds a rate that meets the goal and a higher one that misses it.
func (s *searcher) findBracket(ctx context.Context, most float64) error {
	const stride = 1.25
	for rate := 0.8 * most; s.found.KeptPerSecond == 0 || s.found.MissedPerSecond == 0; {
		if err := s.checkRate(rate, most); err != nil {
			return err
		}
		kept, err := s.voteOnRate(ctx, rate)
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

// checkRate returns an error if no lower rate may be tried.
func (s *searcher) checkRate(rate, most float64) error {
	tooShort := s.plan.stepTooShort(rate)
	switch missed := len(s.found.Steps) > 0; {
	case missed && rate < most*minRateShare:
		return fmt.Errorf("%w: at %s requests per second, %s", ErrNoRate, units.Number(s.found.MissedPerSecond), s.found.Steps[len(s.found.Steps)-1].Why)
	case missed && tooShort != nil:
		return fmt.Errorf("%w: at %s requests per second, %s; a lower rate cannot be tried: %w", ErrNoRate, units.Number(s.found.MissedPerSecond), s.found.Steps[len(s.found.Steps)-1].Why, tooShort)
	case tooShort != nil:
		return fmt.Errorf("the search cannot judge its goal: %w", tooShort)
	}
	return nil
}

// halveInterval divides the interval between the rates that met and missed the goal until they are
// close.
func (s *searcher) halveInterval(ctx context.Context) error {
	for s.relativeGap() > precision {
		if len(s.found.Steps) >= maxSteps {
			s.found.Why = fmt.Sprintf("after %d steps, the highest rate that met the goal and the lowest rate that missed it were still %.1f %% apart", maxSteps, 100*s.relativeGap())
			return nil
		}
		if _, err := s.voteOnRate(ctx, math.Sqrt(s.found.KeptPerSecond*s.found.MissedPerSecond)); err != nil {
			return err
		}
	}
	return nil
}

func (s *searcher) relativeGap() float64 { return s.found.MissedPerSecond/s.found.KeptPerSecond - 1 }

// voteOnRate tries a rate until two of up to three tries have the same outcome, and returns whether
// they met the goal. It keeps the measurement of the last try if they did.
func (s *searcher) voteOnRate(ctx context.Context, rate float64) (bool, error) {
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
			s.keepBest(r, rate)
		} else {
			r.Close()
			s.found.MissedPerSecond = rate
		}
		return step.Kept, nil
	}
}

// keepBest stores the measurement of a rate that is higher than those kept before.
func (s *searcher) keepBest(r *load.Result, rate float64) {
	if s.best != nil {
		s.best.Close()
	}
	s.best, s.found.KeptPerSecond = r, rate
	if s.plan.OnKept != nil {
		s.plan.OnKept()
	}
}

// refineThreshold tries rates one deviation above and below the threshold. There, tries show most
// about the threshold and the deviation. They do not change the result's rate.
func (s *searcher) refineThreshold(ctx context.Context) error {
	for i := range refinementTries {
		threshold, err := stats.FindThreshold(stepOutcomes(s.found.Steps), 0.5)
		if err != nil {
			return fmt.Errorf("load: find the threshold of the search after %d steps: %w", len(s.found.Steps), err)
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

// stepOutcomes returns the outcomes of the steps.
func stepOutcomes(steps []record.Step) []stats.Try {
	return lists.Map(steps, func(s record.Step) stats.Try { return stats.Try{Level: s.RatePerSecond, Passed: s.Kept} })
}

const (
	// maxFailedShare is the share of failed requests above which a rate misses the goal.
	maxFailedShare = 0.001
	// maxBacklogShare is the share of the arrivals that may still wait to be sent at the end
	// of a step that is too short to show how its rate varies.
	maxBacklogShare = 0.05
	// minRequestsBeyond is the number of requests that must lie above a quantile before it can
	// judge a step: with ten requests, the share above it is known within a third.
	minRequestsBeyond = 10
	// maxStepLengthening is the factor by which a step may be lengthened to get more requests.
	maxStepLengthening = 10
)

// minRequests is the number of requests from which the goal's quantile can be judged.
func (g Goal) minRequests() float64 { return math.Ceil(minRequestsBeyond / (1 - g.Quantile)) }

// judgeableDuration returns how long a step at the rate lasts until its quantile can be judged.
func (p *Plan) judgeableDuration(rate float64) time.Duration {
	return time.Duration(math.Ceil(p.Goal.minRequests() / rate * float64(time.Second)))
}

// stepTooShort returns an error if not even the longest step judges the rate.
func (p *Plan) stepTooShort(rate float64) error {
	need := p.judgeableDuration(rate)
	if need <= maxStepLengthening*p.Duration {
		return nil
	}
	return fmt.Errorf("to judge P%g, a step needs %.0f requests (%d above the percentile), which take %[5]v at %.4[4]g requests per second; a step of %[6]v may be lengthened at most %[7]d times: set a duration of %[8]v or more, or a lower percentile",
		100*p.Goal.Quantile, p.Goal.minRequests(), minRequestsBeyond, rate, need.Round(time.Millisecond), p.Duration, maxStepLengthening, (need/maxStepLengthening).Round(time.Millisecond)+time.Millisecond)
}

// measureStep runs one step and judges it.
func (s *searcher) measureStep(ctx context.Context, rate float64) (*load.Result, record.Step, error) {
	plan := s.plan.Plan
	plan.Open = &load.Arrivals{RatePerSecond: rate}
	plan.Duration = max(plan.Duration, s.plan.judgeableDuration(rate))
	settle := min(plan.Duration/4, 200*time.Millisecond)
	plan.WarmUp = load.WarmUp{AtLeast: settle, AtMost: settle}
	r, err := load.Run(ctx, plan)
	if err != nil {
		return nil, record.Step{}, err
	}
	if r.EndedEarly {
		r.Close()
		return nil, record.Step{}, fmt.Errorf("at %s requests per second: %w", units.Number(rate), load.ErrNothingMeasured)
	}
	return r, s.plan.Goal.judgeStep(rate, r), nil
}

// judgeStep compares one step with the goal.
func (g Goal) judgeStep(rate float64, r *load.Result) record.Step {
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
		step.Why = "no request was answered"
	case r.Pacing.Unsent > 0:
		step.Why = fmt.Sprintf("%d arrivals were never sent", r.Pacing.Unsent)
	case float64(failed) > maxFailedShare*float64(r.Requests):
		step.Why = fmt.Sprintf("%d of %d requests failed", failed, r.Requests)
	case beyondCapacity(rate, r):
		step.Why = fmt.Sprintf("beyond capacity: %d requests were due, %d were answered, and the delay kept growing", r.Pacing.Scheduled, r.Completed)
	case figure > g.Limit:
		step.Why = fmt.Sprintf("P%g of the response time was %v, above %v", 100*g.Quantile, figure.Round(time.Microsecond), g.Limit)
	default:
		step.Kept = true
	}
	return step
}

// beyondCapacity reports whether the backlog of a step grew. In a short step, the growth may not
// yet exceed a generous limit of the response time.
func beyondCapacity(rate float64, r *load.Result) bool {
	grew := float64(r.Pacing.Scheduled - r.Completed)
	_, beyond, err := stats.Backlog{
		OfferedPerSecond: rate,
		ServedPerSecond:  r.ServedPerSecond(r.End-r.Begin, stepStretches),
		Grew:             grew,
		Mean:             r.ResponseTimes().Mean().Seconds() * rate,
	}.BeyondCapacity()
	if err != nil { // the step is too short to show how its rate varies
		return grew-r.InFlight > maxBacklogShare*float64(r.Pacing.Scheduled)
	}
	return beyond
}

// stepStretches is the number of parts of a step, which show how its rate varies.
const stepStretches = 20
