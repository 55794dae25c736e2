package catalog

import (
	"context"
	"errors"

	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/service"
)

var _ service.Counted = (*bothClient)(nil)

// bothClient carries the steps of users who use both HTTP and gRPC.
type bothClient struct {
	http, grpc service.Client
	each       int // connections of a client that calls one address
}

func openBoth(ctx context.Context, plan service.Plan) (service.Client, error) {
	http, grpc, journey := *plan.Definition, *plan.Journey.GRPC, *plan.Journey
	journey.GRPC = nil
	http.Journey = &journey
	c := &bothClient{each: max(plan.Connections, 1)}
	var err error
	plan.Definition = &http
	if c.http, err = Open(ctx, plan); err != nil {
		return nil, err
	}
	plan.Definition = &grpc
	if c.grpc, err = Open(ctx, plan); err != nil {
		return nil, errors.Join(err, c.http.Close())
	}
	return c, nil
}

// Call implements service.Client.
func (c *bothClient) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	own, _ := answer.CallerState.(*bothState)
	if own == nil {
		own = &bothState{}
	}
	client, state := c.http, &own.http
	if request.GRPC {
		client, state = c.grpc, &own.grpc
	}
	answer.CallerState = *state
	err := client.Call(ctx, request, answer)
	*state, answer.CallerState = answer.CallerState, own
	return err
}

// A bothState holds what each client keeps of one caller.
type bothState struct{ http, grpc any }

// Close implements service.Client.
func (c *bothClient) Close() error { return errors.Join(c.http.Close(), c.grpc.Close()) }

// Connections implements service.Counted.
func (c *bothClient) Connections() (all int) {
	for _, one := range []service.Client{c.http, c.grpc} {
		if counted, is := one.(service.Counted); is {
			all += counted.Connections()
		} else {
			all += c.each
		}
	}
	return all
}

// Addresses implements service.Counted.
func (c *bothClient) Addresses() (all *record.Addresses) {
	for _, one := range []service.Client{c.http, c.grpc} {
		if counted, is := one.(service.Counted); is {
			all = sum.AddPresent(all, counted.Addresses())
		}
	}
	return all
}
