package fastgrpc

import (
	"context"

	"google.golang.org/grpc"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/stats"
)

// chainUnaryServer combines two interceptors into one. outer may be nil.
func chainUnaryServer(outer, inner grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if outer == nil {
		return inner
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, h)
		})
	}
}

func chainStreamServer(outer, inner grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if outer == nil {
		return inner
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return outer(srv, ss, info, func(srv any, ss grpc.ServerStream) error {
			return inner(srv, ss, info, h)
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

// chainStats combines two stats handlers into one. outer may be nil.
func chainStats(outer, inner stats.Handler) stats.Handler {
	if outer == nil {
		return inner
	}
	return statsPair{outer, inner}
}

// statsPair calls two stats handlers in turn.
type statsPair struct{ outer, inner stats.Handler }

// TagRPC lets each handler add to the context.
func (p statsPair) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return p.inner.TagRPC(p.outer.TagRPC(ctx, info), info)
}

// HandleRPC calls each handler.
func (p statsPair) HandleRPC(ctx context.Context, s stats.RPCStats) {
	p.outer.HandleRPC(ctx, s)
	p.inner.HandleRPC(ctx, s)
}

// TagConn lets each handler add to the context.
func (p statsPair) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return p.inner.TagConn(p.outer.TagConn(ctx, info), info)
}

// HandleConn calls each handler.
func (p statsPair) HandleConn(ctx context.Context, s stats.ConnStats) {
	p.outer.HandleConn(ctx, s)
	p.inner.HandleConn(ctx, s)
}

// recordersOf returns the handlers that record what balancers and resolvers measure.
func recordersOf(h stats.Handler) []estats.MetricsRecorder {
	if p, ok := h.(statsPair); ok {
		return append(recordersOf(p.outer), recordersOf(p.inner)...)
	}
	if r, ok := h.(estats.MetricsRecorder); ok {
		return []estats.MetricsRecorder{r}
	}
	return nil
}
