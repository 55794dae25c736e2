package fastgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// chainUnaryServer combines interceptors into one; it returns nil for none.
func chainUnaryServer(in []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(in) < 2 {
		if len(in) == 0 {
			return nil
		}
		return in[0]
	}
	rest := chainUnaryServer(in[1:])
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		return in[0](ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return rest(ctx, req, info, h)
		})
	}
}

func chainStreamServer(in []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if len(in) < 2 {
		if len(in) == 0 {
			return nil
		}
		return in[0]
	}
	rest := chainStreamServer(in[1:])
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return in[0](srv, ss, info, func(srv any, ss grpc.ServerStream) error {
			return rest(srv, ss, info, h)
		})
	}
}

func chainUnaryClient(in []grpc.UnaryClientInterceptor, last grpc.UnaryInvoker) grpc.UnaryInvoker {
	if len(in) == 0 {
		return last
	}
	rest := chainUnaryClient(in[1:], last)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		return in[0](ctx, method, req, reply, cc, rest, opts...)
	}
}

func chainStreamClient(in []grpc.StreamClientInterceptor, last grpc.Streamer) grpc.Streamer {
	if len(in) == 0 {
		return last
	}
	rest := chainStreamClient(in[1:], last)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return in[0](ctx, desc, cc, method, rest, opts...)
	}
}

// statsChain combines several stats handlers into one.
type statsChain []stats.Handler

// TagRPC lets each handler add to the context.
func (c statsChain) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	for _, h := range c {
		ctx = h.TagRPC(ctx, info) //nolint:fatcontext // a handler adds to what the one before it made; their number is fixed
	}
	return ctx
}

// HandleRPC calls each handler.
func (c statsChain) HandleRPC(ctx context.Context, s stats.RPCStats) {
	for _, h := range c {
		h.HandleRPC(ctx, s)
	}
}

// TagConn lets each handler add to the context.
func (c statsChain) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	for _, h := range c {
		ctx = h.TagConn(ctx, info) //nolint:fatcontext // as in TagRPC
	}
	return ctx
}

// HandleConn calls each handler.
func (c statsChain) HandleConn(ctx context.Context, s stats.ConnStats) {
	for _, h := range c {
		h.HandleConn(ctx, s)
	}
}
