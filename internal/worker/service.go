package worker

import (
	"context"
	"fmt"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/service"
	services "wirelab.dev/internal/service/catalog"
	"wirelab.dev/internal/stack"
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
	f := &fleet{dialer: &stack.Dialer{Sources: spec.Client.Sources}}
	if err := f.mode.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	f.calls = spec.noteInstants()
	sourceOf, err := services.Sources(definition, spec.Client.Clients, spec.Client.Seed)
	if err != nil {
		return nil, err
	}
	client, err := services.Open(ctx, service.Plan{
		Definition: definition, Connections: f.mode.Want(spec.Client.Clients),
		Lifecycle: httpwire.Lifecycle(stack.LifecycleOf(f.mode.Mode)),
		Callers:   spec.Client.Clients, Varied: definition.Feed != nil, Dialer: f.dialer,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", definition.Address, err)
	}
	f.service = client
	for i := range spec.Client.Clients {
		f.callers = append(f.callers, f.noted(definition.NewCaller(client, sourceOf(i))))
	}
	return f, nil
}
