package reach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
)

// rounds goes one round of each kind of users. A failure in one keeps the load from starting.
func (f *First) rounds(ctx context.Context, client service.Client) error {
	d := f.Definition
	expected, err := d.Expectations()
	if err != nil {
		return err
	}
	for i, kind := range f.Script.Kinds() {
		source := f.Script.Source(journey.User{Client: i, Clients: 1, Kind: i, Seed: f.Seed, Header: d.Requests[0].Header})
		round := firstRound{First: f, kind: kind, source: source, caller: d.NewCaller(client, source)}
		round.caller.Expect(expected, f.Seed)
		if err := round.walk(ctx, client); err != nil {
			return fmt.Errorf("%s: %w: nothing was loaded", Name(d), err)
		}
	}
	return nil
}

// A firstRound is the first round of a kind of users.
type firstRound struct {
	*First
	kind   string
	source *journey.Source
	caller *service.Caller
}

func (r *firstRound) walk(ctx context.Context, client service.Client) error {
	first, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	if err := r.source.Begin(first, client); err != nil {
		return fmt.Errorf("the first %s: %w", r.kind, nameCondition(err))
	}
	for !r.source.RoundEnded() {
		err := r.call(ctx)
		if unmet, is := errors.AsType[*expect.Unmet](err); is && isAboutLatency(unmet) {
			r.note("note: the first round: %s does not meet %s: %v", r.caller.Name(), unmet.Condition, unmet)
			return nil // the next may be sooner
		}
		if err != nil {
			return fmt.Errorf("the first round: %s: %w", r.caller.Name(), nameCondition(err))
		}
	}
	return nil
}

func (r *firstRound) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	sent := time.Now()
	err := r.caller.Call(ctx)
	took := time.Since(sent)
	if status, answered := r.caller.Status(); answered {
		r.note("first round: %s: %s, %v", r.caller.Name(), (&service.StatusError{Status: status}).Said(), took.Round(10*time.Microsecond))
	}
	if err != nil {
		return err
	}
	return r.caller.Check()
}

func isAboutLatency(unmet *expect.Unmet) bool {
	condition, err := expect.Parse(unmet.Condition, expect.HTTP)
	return err == nil && condition.Uses().Latency
}

// nameCondition adds to an error the condition that an answer does not meet.
func nameCondition(err error) error {
	if unmet, is := errors.AsType[*expect.Unmet](err); is {
		return fmt.Errorf("%s: %w", unmet.Condition, err)
	}
	return err
}
