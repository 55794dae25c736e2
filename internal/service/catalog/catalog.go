// Package catalog chooses the engine that carries the calls of a definition.
package catalog

import (
	"context"

	"wirelab.dev/internal/service"
	"wirelab.dev/internal/service/feed"
	"wirelab.dev/internal/service/library"
	"wirelab.dev/internal/service/prepared"
)

// Open makes a client of a plan, by the cheapest engine that can do what it asks for.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	if prepared.Can(plan) == nil {
		return prepared.Open(ctx, plan)
	}
	return library.Open(ctx, plan)
}

// Sources returns what makes the requests of each client.
func Sources(d *service.Definition, clients int, seed uint64) (func(client int) service.Source, error) {
	sourceOf := func(client int) service.Source { return d.Fixed(client, seed) }
	if d.Feed != nil {
		parsed, err := feed.Parse(d.Feed)
		if err != nil {
			return nil, err
		}
		sourceOf = func(client int) service.Source {
			return parsed.Source(feed.Client{Number: client, Of: clients, Seed: seed})
		}
	}
	return func(client int) service.Source { return d.Traced(sourceOf(client), client, seed) }, nil
}
