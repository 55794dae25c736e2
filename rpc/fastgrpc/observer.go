package fastgrpc

import (
	"context"
	"sync"
	"time"

	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// An observer reports the events of one call to the stats handlers. A nil observer reports nothing.
type observer struct {
	handlers   []stats.Handler
	ctx        context.Context
	client     bool
	method     string
	began      time.Time
	headerOnce sync.Once // reports the response's header once
}

// newObserver lets the handlers add values to the call's context. It sets begin's time but does not
// report begin.
func newObserver(ctx context.Context, handlers []stats.Handler, tag *stats.RPCTagInfo, begin *stats.Begin) *observer {
	begin.BeginTime = time.Now()
	for _, h := range handlers {
		ctx = h.TagRPC(ctx, tag) //nolint:fatcontext // each handler adds its values
	}
	return &observer{handlers: handlers, ctx: ctx, client: begin.Client, method: tag.FullMethodName, began: begin.BeginTime}
}

func (o *observer) report(event stats.RPCStats) {
	for _, h := range o.handlers {
		h.HandleRPC(o.ctx, event)
	}
}

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

// reportEnd reports the call's end. trailer is nil at a server, as in grpc-go.
func (o *observer) reportEnd(trailer metadata.MD, err error) {
	o.report(&stats.End{Client: o.client, BeginTime: o.began, EndTime: time.Now(), Trailer: trailer, Error: err})
}

// addStatsHandler adds a stats handler, unless it is nil.
func (l *limits) addStatsHandler(h stats.Handler) {
	if h != nil {
		l.stats = append(l.stats, h)
	}
}

// metricsRecorders returns the handlers that record the metrics of balancers and resolvers.
func metricsRecorders(handlers []stats.Handler) (recorders []estats.MetricsRecorder) {
	for _, h := range handlers {
		if r, ok := h.(estats.MetricsRecorder); ok {
			recorders = append(recorders, r)
		}
	}
	return recorders
}
