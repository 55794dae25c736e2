package search

import (
	"context"
	"fmt"
	"math"
	"time"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// A Goal says which rates count as sustained: a quantile of the response time is below a
// limit, every arrival is sent, and at most 0.1 % fail.
type Goal struct {
	Quantile float64       // as in 0.99
	Limit    time.Duration // of the response time at that quantile
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
	// longestStep is the most times its duration that a step may last for that.
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
	return fmt.Errorf("judging P%g takes %.0f requests (%d beyond it), which at %.4g per second last %v, and a step of %v becomes at most %d times as long: write a duration of %v or more, or a lower percentile",
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
