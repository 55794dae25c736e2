// Package catalog chooses the client engine that carries a definition's calls.
package catalog

import (
	"context"
	"sync/atomic"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/feed"
	"wirelab.dev/internal/wire/service/held"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/library"
	"wirelab.dev/internal/wire/service/prepared"
	"wirelab.dev/internal/wire/service/spread"
)

// Open makes a client for a plan, with the cheapest engine that supports the plan.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	switch {
	case plan.Journey != nil && plan.Journey.GRPC != nil:
		return openBoth(ctx, plan)
	case plan.Addresses != nil:
		return spread.Open(ctx, plan, Open)
	case plan.Holding != nil:
		return held.Open(ctx, plan)
	case prepared.CheckPlan(plan) == nil:
		return prepared.Open(ctx, plan)
	default:
		return library.Open(ctx, plan)
	}
}

// Sources makes the request sources of all clients of a definition.
type Sources struct {
	Uses   expect.Uses // the parts of answers that the sources need
	Varied bool        // requests are made while calls run, not before
	Of     func(client int) service.Source
}

// NewSources makes the request sources of all clients.
func NewSources(d *service.Definition, clients int, seed uint64) (*Sources, error) {
	switch {
	case d.Journey != nil:
		script, err := journey.Parse(d.Journey.Name, d.Journey.File)
		if err == nil {
			err = script.Describe(d.Journey.Methods)
		}
		if err != nil {
			return nil, err
		}
		kinds := script.KindsOf(clients)
		return &Sources{Uses: script.Uses(), Varied: true, Of: func(client int) service.Source {
			return script.Source(journey.User{
				Client: client, Clients: clients, Kind: kinds[client], Drawn: d.Journey.Drawn, Seed: seed, Header: d.Requests[0].Header,
			})
		}}, nil
	case d.Feed != nil:
		parsed, err := feed.Parse(d.Feed)
		if err != nil {
			return nil, err
		}
		return &Sources{Varied: true, Of: func(client int) service.Source {
			return d.TracedSource(parsed.Source(service.Share{Number: client, Of: clients, Seed: seed}), client, seed)
		}}, nil
	default:
		turn := new(atomic.Int64)
		return &Sources{Varied: d.Trace != nil, Of: func(client int) service.Source {
			return d.TracedSource(d.FixedSource(service.Share{Number: client, Of: clients, Seed: seed, Turn: turn}), client, seed)
		}}, nil
	}
}
