package connectstack

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// client has a connect.Client for every operation that was called.
type client struct {
	*stack.HTTPClient
	options []connect.ClientOption
	callers sync.Map // full name of an operation -> *caller
}

type caller = connect.Client[envelope, envelope]

var _ stack.Client = (*client)(nil)

func (c *client) caller(method string) *caller {
	if known, has := c.callers.Load(method); has {
		return known.(*caller)
	}
	made, _ := c.callers.LoadOrStore(method, connect.NewClient[envelope, envelope](errorKeeper{cancelingClient{c.HTTPClient}}, c.Base+method, c.options...))
	return made.(*caller)
}

// Invoke implements grpc.ClientConnInterface.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := checkCall(ctx, options); err != nil {
		return err
	}
	request := connect.NewRequest(&envelope{message: args})
	if md, has := metadata.FromOutgoingContext(ctx); has {
		putMetadata(request.Header(), md)
	}
	calling, met := keepError(ctx)
	var info connect.CallInfo
	if len(options) > 0 {
		calling, info = connect.NewClientContext(calling)
	}
	response, err := c.caller(method).CallUnary(calling, request)
	if info != nil {
		report(options, info)
	}
	if ctx.Err() != nil && *met != nil {
		return stack.FailContext(ctx, *met)
	}
	if err != nil {
		return toStatus(ctx, err)
	}
	if err := response.Msg.open(reply); err != nil {
		return status.Errorf(codes.Internal, "connect: decode the answer: %v", err)
	}
	return nil
}

// answerer is what has an answer's metadata.
type answerer interface {
	ResponseHeader() http.Header
	ResponseTrailer() http.Header
}

// report fills in what grpc.Header and grpc.Trailer asked for.
func report(options []grpc.CallOption, from answerer) {
	for _, option := range options {
		switch o := option.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = metadataIn(from.ResponseHeader())
		case grpc.TrailerCallOption:
			*o.TrailerAddr = metadataIn(from.ResponseTrailer())
		}
	}
}

// checkCall refuses what would be asked for in vain.
func checkCall(ctx context.Context, options []grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return stack.CheckCallOptions("connect", options)
}
