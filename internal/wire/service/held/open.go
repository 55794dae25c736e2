package held

import (
	"context"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/library"
)

// newOpener returns what opens a plan's pipes, and the client whose connections carry them. A
// WebSocket has a connection of its own, and no such client.
func newOpener(ctx context.Context, plan service.Plan) (opener, service.Client, error) {
	if plan.Wire == service.WebSocket {
		w, err := newWebSockets(plan)
		if err != nil {
			return nil, nil, err
		}
		return w.openPipe, nil, nil
	}
	carrier, err := library.Open(ctx, plan)
	if err != nil {
		return nil, nil, err
	}
	if plan.Wire == service.GRPC {
		return grpcOpener{carrier.(streamer), plan.Holding.Exchange}.openPipe, carrier, nil
	}
	return eventOpener{carrier.(responder)}.openPipe, carrier, nil
}
