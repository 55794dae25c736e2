// Package library carries calls through libraries: HTTP/1.1 and 2 through net/http, HTTP/3
// through quic-go, gRPC through fastgrpc, and over HTTP/3 as requests of that.
//
// It does all that a definition can ask for, and costs more per call than package prepared.
package library

import (
	"context"

	"wirelab.dev/internal/wire/service"
)

// Open makes a client of a plan. What can be opened ahead is open when it returns.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	switch plan.Wire {
	case service.GRPC:
		return openGRPC(ctx, plan)
	default:
		return openHTTP(ctx, plan)
	}
}
