// Package catalog chooses the engine that carries the calls of a definition.
package catalog

import (
	"context"

	"wirelab.dev/internal/service"
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

// Source makes the requests of one client.
func Source(d *service.Definition, client int, seed uint64) (service.Source, error) {
	return d.Fixed(client, seed), nil
}
