// Package search finds the highest rate of a load that meets a goal.
//
//	Find: which rate next ── load.Step ──> Measurer: one client (Run), or a group of clients
//	            ^                             │
//	            └────────── Measured ─────────┘
//
// This package must not know what the load calls, nor where the clients run.
package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// A Measurer measures the steps of a search.
type Measurer interface {
	// Measure measures one step. Its error wraps load.ErrNothingMeasured if the load was told to end.
	Measure(ctx context.Context, step load.Step) (*Measured, error)
	// Keep keeps the latest measurement, which is the best so far, in place of the one kept before.
	Keep()
}

// Measured holds the figures of a step by which a search decides.
type Measured struct {
	*record.Measurement
	Failures []record.ErrorCount
	WindowNS int64
	Response *latency.Histogram // nil in a closed loop
	Clients  []ClientDelay
}

// A ClientDelay holds how late a client was ready to send its requests.
type ClientDelay struct {
	Name string // empty if there is only one client
	Late *latency.Histogram
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

// Find finds the highest rate that meets the goal. duration is the window of a step; steps last
// longer if the goal's quantile needs more requests. Find raises or lowers the rate by a quarter
// until the outcome changes, and then halves the interval between the last two rates. An outcome
// counts when two of up to three tries agree, since a busy machine can spoil one. At the end it
// tries rates around the threshold, at which half of the tries meet the goal. These tries show how
// exactly the threshold is known. The result lists all tries; m has kept the measurement of the
// highest rate that met the goal. endedEarly is true if the load was told to end after the search
// had found a rate that met the goal and one that missed it.
func Find(ctx context.Context, goal Goal, duration time.Duration, m Measurer) (found *record.Search, endedEarly bool, err error) {
	s := &searcher{goal: goal, duration: duration, steps: m}
	if err := s.check(); err != nil {
		return nil, false, err
	}
	return s.finish(s.search(ctx))
}

// finish returns what was found. A search that was ended early succeeds if it has found both a rate
// that met the goal and one that missed it.
func (s *searcher) finish(err error) (found *record.Search, endedEarly bool, _ error) {
	if errors.Is(err, load.ErrNothingMeasured) && s.found.KeptPerSecond > 0 && s.found.MissedPerSecond > 0 {
		s.found.Why, endedEarly, err = "the search was told to end", true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return &s.found, endedEarly, nil
}

func (s *searcher) check() error {
	switch {
	case !(s.goal.Quantile > 0 && s.goal.Quantile < 1):
		return fmt.Errorf("load: the goal of the search has the quantile %v: want a quantile between 0 and 1", s.goal.Quantile)
	case s.goal.Limit <= 0:
		return fmt.Errorf("load: the goal of the search has the time limit %v: want a time above zero", s.goal.Limit)
	case s.duration <= 0:
		return errors.New("load: the search has no duration: set the duration of its steps")
	}
	return nil
}

// A searcher holds the state of a search. All rates are in requests per second.
type searcher struct {
	goal     Goal
	duration time.Duration
	steps    Measurer
	found    record.Search
}

func (s *searcher) search(ctx context.Context) error {
	most, err := s.measureClosedLoop(ctx)
	if err != nil {
		return err
	}
	return s.searchBelow(ctx, most)
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
	r, err := s.steps.Measure(ctx, load.Step{
		DurationNS: int64(closedLoopDuration), WarmUpAtLeastNS: int64(closedLoopDuration / 2), WarmUpAtMostNS: int64(2 * closedLoopDuration),
	})
	if err != nil {
		return 0, err
	}
	most := float64(r.Completed) / time.Duration(r.WindowNS).Seconds()
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
	tooShort := s.stepTooShort(rate)
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
// they met the goal. It keeps the measurement of the last try if they did: that rate is higher than
// those kept before.
func (s *searcher) voteOnRate(ctx context.Context, rate float64) (bool, error) {
	votes := map[bool]int{}
	for {
		kept, err := s.try(ctx, rate)
		if err != nil {
			return false, err
		}
		if votes[kept]++; votes[kept] < 2 {
			continue
		}
		if kept {
			s.found.KeptPerSecond = rate
			s.steps.Keep()
		} else {
			s.found.MissedPerSecond = rate
		}
		return kept, nil
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
		if s.stepTooShort(rate) != nil {
			continue
		}
		if _, err := s.try(ctx, rate); err != nil {
			return err
		}
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
func (s *searcher) judgeableDuration(rate float64) time.Duration {
	return time.Duration(math.Ceil(s.goal.minRequests() / rate * float64(time.Second)))
}

// stepTooShort returns an error if not even the longest step judges the rate.
func (s *searcher) stepTooShort(rate float64) error {
	need := s.judgeableDuration(rate)
	if need <= maxStepLengthening*s.duration {
		return nil
	}
	return fmt.Errorf("to judge P%g, a step needs %.0f requests (%d above the percentile), which take %[5]v at %.4[4]g requests per second; a step of %[6]v may be lengthened at most %[7]d times: set a duration of %[8]v or more, or a lower percentile",
		100*s.goal.Quantile, s.goal.minRequests(), minRequestsBeyond, rate, need.Round(time.Millisecond), s.duration, maxStepLengthening, (need/maxStepLengthening).Round(time.Millisecond)+time.Millisecond)
}

// try measures a step at a rate, adds it to the steps of the search, and returns whether it met
// the goal.
func (s *searcher) try(ctx context.Context, rate float64) (kept bool, err error) {
	duration := max(s.duration, s.judgeableDuration(rate))
	settle := int64(min(duration/4, 200*time.Millisecond))
	r, err := s.steps.Measure(ctx, load.Step{RatePerSecond: rate, DurationNS: int64(duration), WarmUpAtLeastNS: settle, WarmUpAtMostNS: settle})
	if err != nil {
		return false, fmt.Errorf("at %s requests per second: %w", units.Number(rate), err)
	}
	step := s.goal.judgeStep(rate, r)
	s.found.Steps = append(s.found.Steps, step)
	return step.Kept, nil
}

// judgeStep compares one step with the goal.
func (g Goal) judgeStep(rate float64, r *Measured) record.Step {
	var failed int64
	for _, f := range r.Failures {
		failed += f.Count
	}
	figure := r.Response.Quantile(g.Quantile)
	step := record.Step{
		RatePerSecond:     rate,
		AchievedPerSecond: float64(r.Completed-min(failed, r.Completed)) / time.Duration(r.WindowNS).Seconds(),
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
	case r.beyondCapacity(rate):
		step.Why = fmt.Sprintf("beyond capacity: %d requests were due, %d were answered, and the delay kept growing", r.Pacing.Scheduled, r.Completed)
	case figure > g.Limit:
		step.Why = fmt.Sprintf("P%g of the response time was %v, above %v", 100*g.Quantile, figure.Round(time.Microsecond), g.Limit)
	default:
		step.Kept = true
		return step
	}
	step.Why += g.describeLateClients(figure, r.Clients)
	return step
}

// minLateShare is the share of the goal's limit from which a client's own delay is named.
const minLateShare = 0.1

// describeLateClients names the clients without whose own delay the step might have met the goal: they,
// and not the server, may be the limit.
func (g Goal) describeLateClients(figure time.Duration, clients []ClientDelay) string {
	var limits []string
	for _, c := range clients {
		late := c.Late.Quantile(g.Quantile)
		if float64(late) >= minLateShare*float64(g.Limit) && figure-late <= g.Limit {
			limits = append(limits, fmt.Sprintf("%s was itself late, by %v at P%g", strings.TrimSpace("the client "+c.Name), late.Round(time.Microsecond), 100*g.Quantile))
		}
	}
	const most = 3
	if more := len(limits) - most; more > 0 {
		limits = append(limits[:most], fmt.Sprintf("so were %d other clients", more))
	}
	if len(limits) == 0 {
		return ""
	}
	return "; a client may be the limit: " + strings.Join(limits, ", ")
}

// beyondCapacity reports whether the backlog of a step grew. In a short step, the growth may not
// yet exceed a generous limit of the response time.
func (r *Measured) beyondCapacity(rate float64) bool {
	grew := float64(r.Pacing.Scheduled - r.Completed)
	_, beyond, err := stats.Backlog{
		OfferedPerSecond: rate,
		ServedPerSecond:  r.ServedPerSecond(r.WindowNS, stepStretches),
		Grew:             grew,
		Mean:             r.Response.Mean().Seconds() * rate,
	}.BeyondCapacity()
	if err != nil { // the step is too short to show how its rate varies
		return grew-r.InFlight > maxBacklogShare*float64(r.Pacing.Scheduled)
	}
	return beyond
}

// stepStretches is the number of parts of a step, which show how its rate varies.
const stepStretches = 20
