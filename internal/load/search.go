package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"wirelab.dev/internal/record"
)

// Goal is what a rate must meet to count as sustained: a quantile of the response
// time below a limit, every arrival sent, and at most 0.1 % failures.
type Goal struct {
	Quantile float64       // as in 0.99
	Limit    time.Duration // of the response time at that quantile
}

// goalFailures is the share of failed requests above which a rate misses the goal.
const goalFailures = 0.001

// SearchPlan describes a search for the highest constant rate that meets a goal.
type SearchPlan struct {
	// Plan is the load of one step; Duration is a step's window. The search sets
	// Open and WarmUp.
	Plan
	Goal Goal
	// Precision is the relative difference between the highest rate that met the
	// goal and the lowest that missed it at which the search ends. 0: 1 %.
	Precision float64
}

// ErrNoRate is wrapped by the error if even the lowest rate missed the goal.
var ErrNoRate = errors.New("no rate meets the goal")

const (
	defaultPrecision = 0.01
	// The search begins with a closed loop of all clients: its throughput is
	// about the highest possible rate.
	probeDuration = 500 * time.Millisecond
	// The search fails below this share of that rate, or with fewer requests in
	// a step.
	leastShare, leastRequests = 1.0 / 100, 10
	// The limit of steps, however noisy the machine is.
	mostSteps = 60
)

// Search finds the highest rate that meets the goal. It raises or lowers the rate
// by a quarter until the outcome changes, and then halves the interval between.
// An outcome counts when two of up to three tries agree, since a busy machine can
// spoil one. The result is the measurement of the highest rate at which a step met the
// goal; its Search says what was tried.
func Search(ctx context.Context, p SearchPlan) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := &searcher{plan: p}
	if err := s.run(ctx); err != nil {
		if s.best != nil {
			s.best.Close()
		}
		return nil, err
	}
	s.best.Search = &s.found
	return s.best, nil
}

func (p *SearchPlan) check() error {
	switch {
	case !(p.Goal.Quantile > 0 && p.Goal.Quantile < 1):
		return fmt.Errorf("load: a goal at quantile %v: want one between 0 and 1", p.Goal.Quantile)
	case p.Goal.Limit <= 0:
		return fmt.Errorf("load: a goal of %v: want a time above zero", p.Goal.Limit)
	case p.Duration <= 0:
		return errors.New("load: a search needs the duration of its steps")
	case p.Precision < 0 || p.Precision >= 1:
		return fmt.Errorf("load: a precision of %v: want 0 or more, and less than 1", p.Precision)
	}
	return nil
}

type searcher struct {
	plan  SearchPlan
	found record.Search
	best  *Result // at the highest rate that met the goal so far
}

func (s *searcher) run(ctx context.Context) error {
	most, err := s.probe(ctx)
	if err != nil {
		return err
	}
	low, high, err := s.bracket(ctx, most)
	if err != nil {
		return err
	}
	precision := s.plan.Precision
	if precision == 0 {
		precision = defaultPrecision
	}
	for high/low-1 > precision {
		if len(s.found.Steps) >= mostSteps {
			s.found.Why = fmt.Sprintf("after %d steps the highest rate that met the goal and the lowest that missed it were still %.1f %% apart", mostSteps, 100*(high/low-1))
			break
		}
		middle := math.Sqrt(low * high)
		kept, err := s.decide(ctx, middle)
		if err != nil {
			return err
		}
		if kept {
			low = middle
		} else {
			high = middle
		}
	}
	s.found.KeptPerSecond, s.found.MissedPerSecond = low, high
	return nil
}

// probe returns the throughput of a closed loop of all clients, per second.
func (s *searcher) probe(ctx context.Context) (float64, error) {
	plan := s.plan.Plan
	plan.Duration, plan.KeepSamples = probeDuration, false
	plan.OnOpen, plan.OnClose = nil, nil
	plan.WarmUp = WarmUp{AtLeast: probeDuration / 2, AtMost: 2 * probeDuration}
	r, err := Run(ctx, plan)
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
func (s *searcher) bracket(ctx context.Context, most float64) (low, high float64, err error) {
	const stride = 1.25
	rate := 0.8 * most
	kept, err := s.decide(ctx, rate)
	if err != nil {
		return 0, 0, err
	}
	for first := kept; kept == first; {
		if kept {
			low, rate = rate, rate*stride
		} else {
			high, rate = rate, rate/stride
		}
		if rate < most*leastShare || rate*s.plan.Duration.Seconds() < leastRequests {
			return 0, 0, fmt.Errorf("%w: at %.4g a second, %s", ErrNoRate, high, s.found.Steps[len(s.found.Steps)-1].Why)
		}
		if kept, err = s.decide(ctx, rate); err != nil {
			return 0, 0, err
		}
	}
	if kept {
		return rate, high, nil
	}
	return low, rate, nil
}

// decide tries a rate until two tries of up to three agree.
func (s *searcher) decide(ctx context.Context, rate float64) (bool, error) {
	votes := map[bool]int{}
	for votes[true] < 2 && votes[false] < 2 {
		kept, err := s.try(ctx, rate)
		if err != nil {
			return false, err
		}
		votes[kept]++
	}
	return votes[true] == 2, nil
}

// try measures one step, and keeps the measurement if it is the best.
func (s *searcher) try(ctx context.Context, rate float64) (bool, error) {
	plan := s.plan.Plan
	plan.Open = &Arrivals{RatePerSecond: rate}
	settle := min(plan.Duration/4, 200*time.Millisecond)
	plan.WarmUp = WarmUp{AtLeast: settle, AtMost: settle}
	r, err := Run(ctx, plan)
	if err != nil {
		return false, err
	}
	step := s.plan.Goal.judge(rate, r)
	worse := r
	if step.Kept && rate >= s.bestRate() {
		worse, s.best = s.best, r
	}
	if worse != nil {
		worse.Close()
	}
	s.found.Steps = append(s.found.Steps, step)
	return step.Kept, nil
}

// bestRate returns the highest rate that met the goal so far.
func (s *searcher) bestRate() float64 {
	best := 0.0
	for _, step := range s.found.Steps {
		if step.Kept {
			best = max(best, step.RatePerSecond)
		}
	}
	return best
}

// judge compares one step with the goal.
func (g Goal) judge(rate float64, r *Result) record.Step {
	var failed int64
	for _, f := range r.Failures {
		failed += f.Count
	}
	figure := r.response.Quantile(g.Quantile)
	step := record.Step{
		RatePerSecond:     rate,
		AchievedPerSecond: float64(r.Completed-min(failed, r.Completed)) / time.Duration(r.End-r.Begin).Seconds(),
		FigureNS:          int64(figure),
	}
	switch {
	case r.Requests == 0:
		step.Why = "nothing was answered"
	case r.Pacing.Unsent > 0:
		step.Why = fmt.Sprintf("%d arrivals were never sent", r.Pacing.Unsent)
	case float64(failed) > goalFailures*float64(r.Requests):
		step.Why = fmt.Sprintf("%d of %d requests failed", failed, r.Requests)
	case figure > g.Limit:
		step.Why = fmt.Sprintf("P%g of the response time was %v, above %v", 100*g.Quantile, figure.Round(time.Microsecond), g.Limit)
	default:
		step.Kept = true
	}
	return step
}
