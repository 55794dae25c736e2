package fastgrpc

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// An observer reports one call to a stats handler. A call without a handler has a nil
// observer, which reports nothing.
type observer struct {
	handler    stats.Handler
	ctx        context.Context
	client     bool
	method     string
	began      time.Time
	headerOnce sync.Once // the response's is reported
	ended      atomic.Bool
}

// newObserver lets the handler tag the call's context. The caller reports begin.
func newObserver(ctx context.Context, h stats.Handler, tag *stats.RPCTagInfo, begin *stats.Begin) *observer {
	begin.BeginTime = time.Now()
	return &observer{
		handler: h, ctx: h.TagRPC(ctx, tag),
		client: begin.Client, method: tag.FullMethodName, began: begin.BeginTime,
	}
}

func (o *observer) report(event stats.RPCStats) { o.handler.HandleRPC(o.ctx, event) }

func (o *observer) sent(m any, size message.Sizes) {
	if o != nil {
		o.report(&stats.OutPayload{
			Client: o.client, Payload: m, Length: size.Plain, CompressedLength: size.Packed, WireLength: size.Packed + wire.PrefixLen, SentTime: time.Now(),
		})
	}
}

func (o *observer) received(m any, size message.Sizes) {
	if o != nil {
		o.report(&stats.InPayload{
			Client: o.client, Payload: m, Length: size.Plain, CompressedLength: size.Packed, WireLength: size.Packed + wire.PrefixLen, RecvTime: time.Now(),
		})
	}
}

func (o *observer) end(err error) {
	if o != nil && !o.ended.Swap(true) {
		o.report(&stats.End{Client: o.client, BeginTime: o.began, EndTime: time.Now(), Error: err})
	}
}

// opened reports a request's header: as in grpc-go, the program's metadata and the
// user-agent.
func (o *observer) opened(cc *clientConn, info *callInfo) {
	if o != nil {
		md, _ := metadata.FromOutgoingContext(o.ctx)
		o.report(&stats.OutHeader{
			Client: true, FullMethod: o.method, Header: metadata.Join(md, metadata.Pairs(wire.FieldUserAgent, cc.client.userAgent())),
			Compression: message.CompressorName(info.compressor), Authority: cmp.Or(info.authority, cc.serverName),
			RemoteAddr: cc.peer.Addr, LocalAddr: cc.peer.LocalAddr,
		})
	}
}

// headerReceived reports a response's header once, if it has come.
func (o *observer) headerReceived(c *clientCall) {
	if o == nil {
		return
	}
	o.headerOnce.Do(func() {
		if len(c.header) > 0 {
			o.report(&stats.InHeader{
				Client: true, WireLength: c.headerLength, Compression: message.CompressorName(c.received), Header: toMetadata(c.header),
			})
		}
	})
}

// observe begins to report an attempt of a call to the client's stats handler.
func (c *Client) observe(ctx context.Context, method string, info *callInfo, desc *grpc.StreamDesc, t *tries) *observer {
	begin := &stats.Begin{
		IsTransparentRetryAttempt: t.transparent,
		Client:                    true, FailFast: !info.WaitForReady,
		IsClientStream: desc.ClientStreams, IsServerStream: desc.ServerStreams,
	}
	o := newObserver(ctx, c.opts.stats, &stats.RPCTagInfo{FullMethodName: method, FailFast: begin.FailFast, NameResolutionDelay: info.resolutionDelay}, begin)
	o.report(begin)
	return o
}

// observe begins to report a call to the server's stats handler. It returns the call's
// context, which the handler may have tagged.
func (s *serverCall) observe() context.Context {
	c := s.conn
	if c.stats == nil {
		return s.context()
	}
	begin := &stats.Begin{}
	if d := s.method.Stream; d != nil {
		begin.IsClientStream, begin.IsServerStream = d.ClientStreams, d.ServerStreams
	}
	s.observer = newObserver(s.context(), c.stats, &stats.RPCTagInfo{FullMethodName: s.method.Name}, begin)
	s.observer.report(&stats.InHeader{
		FullMethod: s.method.Name, RemoteAddr: c.peer.Addr, LocalAddr: c.peer.LocalAddr,
		WireLength: s.headerLength, Compression: message.CompressorName(s.received), Header: s.incoming(),
	})
	s.observer.report(begin)
	return s.observer.ctx
}

// headerSent reports a response's header, once.
func (o *observer) headerSent(s *serverCall) {
	if o == nil {
		return
	}
	o.headerOnce.Do(func() {
		s.conn.Mu.Lock()
		md := s.header.Copy()
		s.conn.Mu.Unlock()
		o.report(&stats.OutHeader{Header: md, Compression: message.CompressorName(s.sent)})
	})
}

// responded reports the end of a response.
func (o *observer) responded(s *serverCall, st *status.Status) {
	if o == nil {
		return
	}
	if len(s.header) > 0 {
		o.headerSent(s)
	}
	o.report(&stats.OutTrailer{Trailer: s.trailer})
	o.end(st.Err())
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

// recordersOf returns the handlers that record the metrics of balancers and resolvers.
func recordersOf(h stats.Handler) []estats.MetricsRecorder {
	if p, ok := h.(statsPair); ok {
		return append(recordersOf(p.outer), recordersOf(p.inner)...)
	}
	if r, ok := h.(estats.MetricsRecorder); ok {
		return []estats.MetricsRecorder{r}
	}
	return nil
}
