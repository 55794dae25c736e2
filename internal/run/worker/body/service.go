package body

import (
	"context"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	services "wirelab.dev/internal/wire/service/catalog"
	"wirelab.dev/internal/wire/workload"
)

// isService reports whether the spec's client calls a service of the user's own.
func (s *task) isService() bool {
	variant, err := scenario.ParseVariant(s.Stack)
	return err == nil && variant.Stack == service.Stack
}

// connectService opens connections to a service of the user's own, and makes a caller for
// each client.
func connectService(ctx context.Context, spec *task) (*connected, error) {
	definition, err := service.Parse(spec.Workload.Definition)
	if err != nil {
		return nil, err
	}
	var mode scenario.Connection
	if err := mode.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	conns := &connected{mode: mode, dialer: &conn.Dialer{Sources: spec.Client.Sources}, calls: spec.noteInstants()}
	return conns, conns.openService(ctx, spec, definition, func(c *service.Caller) workload.Caller { return c })
}

// openService opens the connections to a service, and makes a caller for each client.
func (conns *connected) openService(ctx context.Context, spec *task, definition *service.Definition, checked func(*service.Caller) workload.Caller) error {
	expected, err := definition.Expectations()
	if err != nil {
		return err
	}
	group := spec.Client.GroupOf()
	sources, err := services.NewSources(definition, group.Of, spec.Client.Seed)
	if err != nil {
		return err
	}
	client, err := services.Open(ctx, service.Plan{
		Definition: definition, Connections: conns.mode.Want(spec.Client.Clients),
		Lifecycle: conn.LifecycleOf(conns.mode.Mode),
		Callers:   spec.Client.Clients, Dialer: conns.dialer,
		Keep: expected.Keep() || sources.Uses.Header || sources.Uses.Body, Varied: sources.Varied,
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", definition.Address, err)
	}
	conns.service = client
	var followers []service.Follower
	for i := range spec.Client.Clients {
		number := group.First + i
		source := sources.Of(number)
		if follower, is := source.(service.Follower); is {
			followers = append(followers, follower)
		}
		caller := definition.NewCaller(client, source)
		caller.Expect(expected, spec.Client.Seed+uint64(number))
		conns.own = append(conns.own, caller)
		conns.callers = append(conns.callers, conns.noted(checked(caller)))
	}
	return begin(ctx, client, followers)
}

// begin makes the calls that users make before the load, some at a time.
func begin(ctx context.Context, client service.Client, followers []service.Follower) error {
	return conn.OpenEach(ctx, len(followers), func(ctx context.Context, i int) error {
		if err := followers[i].Begin(ctx, client); err != nil {
			return fmt.Errorf("user %d of %d: %w", i+1, len(followers), err)
		}
		return nil
	})
}

// checking returns the cost of checking the answers of all callers, or nil if nothing was
// checked. No caller may be calling.
func (conns *connected) checking() *record.Checking {
	var all *record.Checking
	for _, caller := range conns.own {
		one := caller.Checking()
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
