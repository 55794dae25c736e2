package fastgrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// An observer reports the events of one call to a stats handler. A nil observer reports nothing.
type observer struct {
	handler    stats.Handler
	ctx        context.Context
	client     bool
	method     string
	began      time.Time
	headerOnce sync.Once // reports the response's header once
	ended      atomic.Bool
}

// newObserver lets the handler add values to the call's context. It sets begin's time but does not
// report begin.
func newObserver(ctx context.Context, h stats.Handler, tag *stats.RPCTagInfo, begin *stats.Begin) *observer {
	begin.BeginTime = time.Now()
	return &observer{
		handler: h, ctx: h.TagRPC(ctx, tag),
		client: begin.Client, method: tag.FullMethodName, began: begin.BeginTime,
	}
}

func (o *observer) report(event stats.RPCStats) { o.handler.HandleRPC(o.ctx, event) }

func (o *observer) reportSent(m any, size message.Sizes) {
	if o != nil {
		o.report(&stats.OutPayload{
			Client: o.client, Payload: m, Length: size.Plain, CompressedLength: size.Packed, WireLength: size.Packed + wire.PrefixLen, SentTime: time.Now(),
		})
	}
}

func (o *observer) reportReceived(m any, size message.Sizes) {
	if o != nil {
		o.report(&stats.InPayload{
			Client: o.client, Payload: m, Length: size.Plain, CompressedLength: size.Packed, WireLength: size.Packed + wire.PrefixLen, RecvTime: time.Now(),
		})
	}
}

// reportEnd reports the call's end, once. trailer is nil at a server, as in grpc-go.
func (o *observer) reportEnd(trailer metadata.MD, err error) {
	if o != nil && !o.ended.Swap(true) {
		o.report(&stats.End{Client: o.client, BeginTime: o.began, EndTime: time.Now(), Trailer: trailer, Error: err})
	}
}

// chainStatsHandlers returns a handler that calls outer, if it is not nil, and then inner.
func chainStatsHandlers(outer, inner stats.Handler) stats.Handler {
	if outer == nil {
		return inner
	}
	return statsPair{outer, inner}
}

// statsPair calls two stats handlers, outer first.
type statsPair struct{ outer, inner stats.Handler }

func (p statsPair) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return p.inner.TagRPC(p.outer.TagRPC(ctx, info), info)
}

func (p statsPair) HandleRPC(ctx context.Context, s stats.RPCStats) {
	p.outer.HandleRPC(ctx, s)
	p.inner.HandleRPC(ctx, s)
}

func (p statsPair) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return p.inner.TagConn(p.outer.TagConn(ctx, info), info)
}

func (p statsPair) HandleConn(ctx context.Context, s stats.ConnStats) {
	p.outer.HandleConn(ctx, s)
	p.inner.HandleConn(ctx, s)
}

// metricsRecorders returns the handlers in h that record the metrics of balancers and resolvers.
func metricsRecorders(h stats.Handler) []estats.MetricsRecorder {
	if p, ok := h.(statsPair); ok {
		return append(metricsRecorders(p.outer), metricsRecorders(p.inner)...)
	}
	if r, ok := h.(estats.MetricsRecorder); ok {
		return []estats.MetricsRecorder{r}
	}
	return nil
}
