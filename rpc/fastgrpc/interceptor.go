package fastgrpc

import (
	"context"

	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/stats"
)

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
