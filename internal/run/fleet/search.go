package fleet

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/load/search"
	"wirelab.dev/internal/run/worker"
)

// A groupSearch searches with a group of clients: it decides, and all members measure each step at
// the same time.
type groupSearch struct {
	*clientGroup
	found      *record.Search // nil unless the load is a search
	endedEarly bool

	number     int                    // of the latest step
	bestNumber int                    // of the best step so far
	last, best []*worker.ClientResult // the results of each member
}

var _ search.Measurer = (*groupSearch)(nil)

// run searches, and tells the members to print their results of the best step.
func (s *groupSearch) run(ctx context.Context) (err error) {
	goal := search.Goal{Quantile: s.load.GoalQuantile, Limit: time.Duration(s.load.GoalNS)}
	if s.found, s.endedEarly, err = search.Find(ctx, goal, time.Duration(s.load.DurationNS), s); err != nil {
		return err
	}
	_, err = s.giveStep(load.Step{})
	return err
}

// giveStep gives the next step to all members. It returns the step as they got it.
func (s *groupSearch) giveStep(step load.Step) (load.Step, error) {
	s.number++
	step.Number, step.Best = s.number, s.bestNumber
	at, err := s.sendToAll(worker.ControlOrder{Control: worker.StepControl, Step: &step})
	s.watch.SetOpening(at + int64(step.OpensAfter()))
	return step, err
}

// Measure lets all members measure a step. The result has the sums of their counts, and their
// histograms, merged exactly.
func (s *groupSearch) Measure(ctx context.Context, step load.Step) (*search.Measured, error) {
	ordered := clock.Now()
	step, err := s.giveStep(step)
	if err != nil {
		return nil, err
	}
	results := make([]*worker.ClientResult, len(s.members))
	if err := s.forEachMember(func(i int, m *remoteWorker) (err error) {
		results[i], err = m.stepResult(ctx, step, ordered)
		return err
	}); err != nil {
		return nil, err
	}
	s.last = results
	var parts []worker.ClientPart
	for i, r := range results {
		parts = append(parts, worker.ClientPart{Agent: s.members[i].on.Name, Clients: s.clients[i], Result: worker.Result{Client: r}})
	}
	all, err := crowd.Merge(parts, nil)
	if err != nil {
		return nil, err
	}
	measured := &search.Measured{Measurement: &all.Measurement, Failures: all.Failures, WindowNS: all.EndNS - all.BeginNS}
	if step.RatePerSecond == 0 {
		return measured, nil
	}
	for _, p := range parts {
		late, err := p.Result.Client.Pacing.Late.Decode()
		if err != nil {
			return nil, fmt.Errorf("%s: read how late the client was: %w", p.Agent, err)
		}
		measured.Clients = append(measured.Clients, search.ClientDelay{Name: "on " + p.Agent, Late: late})
	}
	measured.Response, err = all.Response.Decode()
	return measured, err
}

// Keep keeps the latest step as the best so far.
func (s *groupSearch) Keep() { s.bestNumber, s.best = s.number, s.last }

// finish adds the search to the merged result, which must be that of the best step.
func (s *groupSearch) finish(merged *worker.Result) error {
	if s.found == nil {
		return nil
	}
	for i, p := range merged.Parts {
		c, best := p.Result.Client, s.best[i]
		if c.BeginNS != best.BeginNS || c.EndNS != best.EndNS || c.Completed != best.Completed || !reflect.DeepEqual(c.Service, best.Service) || !reflect.DeepEqual(c.Response, best.Response) {
			return fmt.Errorf("%s: the result is not that of the search's best step", p.Agent)
		}
	}
	merged.Client.Search, merged.Client.EndedEarly = s.found, s.endedEarly
	return nil
}

// checkStep returns an error if a client cannot have measured this in the step that it was ordered to
// measure. orderedNS and now are on the controller's clock, as the result's instants are.
func (r *remoteWorker) checkStep(step load.Step, got *worker.StepResult, orderedNS, now int64) error {
	c := got.Client
	switch {
	case got.Number != step.Number:
		return fmt.Errorf("%s: the result is that of step %d of the search: the order was step %d", r.on.Name, got.Number, step.Number)
	case c == nil: // it was told to end
		return nil
	}
	if early, late := c.BeginNS < orderedNS-int64(maxInstantError), c.EndNS > now+int64(maxInstantError); early || late {
		return fmt.Errorf("%s: the result is not that of step %d of the search: its window lasted from %v to %v after the order, and the result came after %v",
			r.on.Name, step.Number, time.Duration(c.BeginNS-orderedNS), time.Duration(c.EndNS-orderedNS), time.Duration(now-orderedNS))
	}
	if off := math.Abs(float64(c.LengthNS()) - float64(step.DurationNS)); off > maxLengthError*float64(step.DurationNS) {
		return fmt.Errorf("%s: step %d of the search has a window of %v: the order was %v", r.on.Name, step.Number, time.Duration(c.LengthNS()), time.Duration(step.DurationNS))
	}
	if step.RatePerSecond == 0 {
		return nil
	}
	p := c.Pacing
	if p == nil || c.Response == nil || p.Unsent < 0 || p.Scheduled != c.Requests+p.Unsent || c.Response.Count != c.Requests || c.Response.OnlyTotals() || p.Late.Count != c.Requests {
		return fmt.Errorf("%s: step %d of the search contradicts itself: it has %d requests, and other numbers of arrivals or times", r.on.Name, step.Number, c.Requests)
	}
	// Clients take turns at the arrivals, so a window may begin or end in the middle of a round.
	const maxTurnError = 10
	own, of := float64(r.spec.Client.Clients), float64(r.spec.Client.GroupOrOwn().Of)
	due := step.RatePerSecond * time.Duration(c.LengthNS()).Seconds() * own / of
	if math.Abs(float64(p.Scheduled)-due) > maxLengthError*due+maxTurnError {
		return fmt.Errorf("%s: step %d of the search has %d arrivals: the order was %.4g per second for all clients, which are %.0f arrivals for this one", r.on.Name, step.Number, p.Scheduled, step.RatePerSecond, due)
	}
	return nil
}
