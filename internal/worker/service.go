package worker

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/service"
	services "wirelab.dev/internal/service/catalog"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/workload"
)

// isService reports whether the spec's client calls a service of the user's own.
func (s *Spec) isService() bool {
	variant, err := scenario.ParseVariant(s.Stack)
	return err == nil && variant.Stack == service.Stack
}

// connectService opens connections to a service of the user's own, and makes a caller for
// each client.
func connectService(ctx context.Context, spec *Spec) (*fleet, error) {
	definition, err := service.Parse(spec.Workload.Definition)
	if err != nil {
		return nil, err
	}
	var mode scenario.Connection
	if err := mode.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	f := &fleet{mode: mode, dialer: &stack.Dialer{Sources: spec.Client.Sources}, calls: spec.noteInstants()}
	return f, f.openService(ctx, spec, definition, func(c *service.Caller) workload.Caller { return c })
}

// openService opens the connections to a service, and makes a caller for each client.
func (f *fleet) openService(ctx context.Context, spec *Spec, definition *service.Definition, checked func(*service.Caller) workload.Caller) error {
	expected, err := definition.Expectations()
	if err != nil {
		return err
	}
	sources, err := services.NewSources(definition, spec.Client.Clients, spec.Client.Seed)
	if err != nil {
		return err
	}
	client, err := services.Open(ctx, service.Plan{
		Definition: definition, Connections: f.mode.Want(spec.Client.Clients),
		Lifecycle: httpwire.Lifecycle(stack.LifecycleOf(f.mode.Mode)),
		Callers:   spec.Client.Clients, Dialer: f.dialer,
		Keep: expected.Keep() || sources.Uses.Header || sources.Uses.Body, Varied: sources.Varied,
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", definition.Address, err)
	}
	f.service = client
	var followers []service.Follower
	for i := range spec.Client.Clients {
		source := sources.Of(i)
		if follower, is := source.(service.Follower); is {
			followers = append(followers, follower)
		}
		caller := definition.NewCaller(client, source)
		caller.Expect(expected, spec.Client.Seed+uint64(i))
		f.own = append(f.own, caller)
		f.callers = append(f.callers, f.noted(checked(caller)))
	}
	return begin(ctx, client, followers)
}

// begin makes the calls that users make before the load, some at a time.
func begin(ctx context.Context, client service.Client, followers []service.Follower) error {
	beginning, ctx := errgroup.WithContext(ctx)
	beginning.SetLimit(dialsAtOnce)
	for i, one := range followers {
		beginning.Go(func() error {
			if err := one.Begin(ctx, client); err != nil {
				return fmt.Errorf("user %d of %d: %w", i+1, len(followers), err)
			}
			return nil
		})
	}
	return beginning.Wait()
}

// checking is what looking at the answers cost all callers; nil where there was nothing to
// look for. No caller may be calling.
func (f *fleet) checking() *record.Checking {
	var all *record.Checking
	for _, c := range f.own {
		one := c.Checking()
		if one == nil {
			continue
		}
		if all == nil {
			all = new(record.Checking)
		}
		all.Answers += one.Answers
		all.Whole += one.Whole
		all.TookNS += one.TookNS
	}
	return all
}
