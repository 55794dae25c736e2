package fastgrpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// serve runs the call's handler and ends the response. Workers call it.
func (s *serverStream) serve() {
	if s.method.unary != nil {
		s.serveUnary()
	} else {
		s.serveStream()
	}
	s.cancel(context.Canceled)
}

func (s *serverStream) serveUnary() {
	opts := &s.conn.server.opts
	ctx := context.Context(&s.callContext)
	if opts.stats != nil {
		ctx = s.reportBegin(opts.stats)
	}
	if err := s.Err(); err != nil {
		// Cancelled, or past its deadline, before it began.
		s.sendResponse(ctx, nil, err)
		return
	}
	reply, err := s.method.unary.Handler(s.method.impl, ctx, s.decodeRequest, opts.unaryInterceptor)
	if err != nil {
		s.sendResponse(ctx, nil, err)
		return
	}
	b, err := encodeMessage(s.codec, s.sent, reply, opts.maxSend)
	if opts.stats != nil && err == nil {
		s.reportOutPayload(ctx, reply, b)
	}
	s.sendResponse(ctx, b, err)
}

// decodeRequest decodes the message of a unary call.
func (s *serverStream) decodeRequest(v any) error {
	if s.requestErr != nil {
		return s.requestErr
	}
	m, _ := s.take()
	opts := &s.conn.server.opts
	packed := len(m.data)
	owner, err := decodeMessage(s.codec, s.received, &m, v, decodeOptions{limit: opts.maxReceive, alias: opts.alias})
	if opts.alias && owner != nil {
		s.alias = owner // released after the handler has returned and the reply is encoded
	}
	if err == nil && opts.stats != nil {
		s.reportInPayload(v, sizes{len(m.data), packed})
	}
	return err
}

// sendResponse sends the reply, if there is one, and the status.
func (s *serverStream) sendResponse(ctx context.Context, reply *buffer, err error) {
	st := statusOf(err)
	c := s.conn
	c.mu.Lock()
	if s.h2.Open() {
		if reply != nil {
			s.sendHeaderLocked(nil)
			c.h2.SendData(&s.h2, h2.Payload{Data: reply.data, Owner: reply}, false)
			reply = nil
		}
		s.sendStatusLocked(st)
	}
	c.release(s)
	c.counters.callEnded(st.Code())
	c.flushBatch()
	c.mu.Unlock()
	if reply != nil {
		reply.Release()
	}
	if h := c.server.opts.stats; h != nil {
		s.reportEnd(ctx, h, st)
	}
}

func (s *serverStream) serveStream() {
	opts := &s.conn.server.opts
	ctx := context.Context(&s.callContext)
	s.callContext.mu.Lock()
	s.startTimer() // a stream that waits must wake at its deadline
	s.callContext.mu.Unlock()
	if opts.stats != nil {
		ctx = s.reportBegin(opts.stats)
	}
	api := &serverStreamAPI{s: s, ctx: ctx}
	var err error
	if opts.streamInterceptor != nil {
		err = opts.streamInterceptor(s.method.impl, api, &s.method.sInfo, s.method.stream.Handler)
	} else {
		err = s.method.stream.Handler(s.method.impl, api)
	}
	s.sendResponse(ctx, nil, err)
}

// transportStream makes grpc.SetHeader, SendHeader and SetTrailer work on the call.
type transportStream serverStream

var _ grpc.ServerTransportStream = (*transportStream)(nil)

// Method returns the full name of the method.
func (t *transportStream) Method() string { return t.method.name }

// SetHeader adds to the response's header metadata.
func (t *transportStream) SetHeader(md metadata.MD) error {
	return (*serverStream)(t).setHeader(md, false)
}

// SendHeader sends the response's header.
func (t *transportStream) SendHeader(md metadata.MD) error {
	return (*serverStream)(t).setHeader(md, true)
}

// SetTrailer adds to the response's trailer metadata.
func (t *transportStream) SetTrailer(md metadata.MD) error {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}

func (s *serverStream) setHeader(md metadata.MD, send bool) error {
	if err := validateMetadata(md); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	err := s.putHeader(md, send)
	if err == nil && send && s.conn.server.opts.stats != nil {
		s.reportHeader()
	}
	return err
}

func (s *serverStream) putHeader(md metadata.MD, send bool) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.headerSent:
		return status.Error(codes.Internal, "fastgrpc: SetHeader or SendHeader after the header was sent")
	case send && !s.h2.Open():
		return s.endedError()
	case send:
		s.sendHeaderLocked(md)
		c.flush()
	default:
		s.header = metadata.Join(s.header, md)
	}
	return nil
}

// serverStreamAPI is what the handler of a streaming call gets.
type serverStreamAPI struct {
	s   *serverStream
	ctx context.Context
}

var _ grpc.ServerStream = (*serverStreamAPI)(nil)

// Context returns the call's context; it ends with the call.
func (a *serverStreamAPI) Context() context.Context { return a.ctx }

// SetHeader adds to the response's header metadata.
func (a *serverStreamAPI) SetHeader(md metadata.MD) error { return a.s.setHeader(md, false) }

// SendHeader sends the response's header.
func (a *serverStreamAPI) SendHeader(md metadata.MD) error { return a.s.setHeader(md, true) }

// SetTrailer adds to the response's trailer metadata.
func (a *serverStreamAPI) SetTrailer(md metadata.MD) {
	_ = (*transportStream)(a.s).SetTrailer(md) // never fails
}

// SendMsg sends a message; the caller may reuse m when it returns.
func (a *serverStreamAPI) SendMsg(m any) error {
	s := a.s
	opts := &s.conn.server.opts
	b, err := encodeMessage(s.codec, s.sent, m, opts.maxSend)
	if err != nil {
		return err
	}
	if opts.stats != nil {
		s.reportOutPayload(a.ctx, m, b)
	}
	return s.sendMessage(b)
}

// RecvMsg receives a message. It returns io.EOF after the client's last message.
func (a *serverStreamAPI) RecvMsg(v any) error {
	s := a.s
	opts := &s.conn.server.opts
	if s.alias != nil {
		s.alias.Release()
		s.alias = nil
	}
	m, err := s.nextMessage()
	if err != nil {
		if errors.Is(err, io.EOF) && !s.method.stream.ClientStreams {
			return status.Error(codes.Internal, "fastgrpc: request without a message")
		}
		return err
	}
	packed := len(m.data)
	s.alias, err = decodeMessage(s.codec, s.received, &m, v, decodeOptions{limit: opts.maxReceive, alias: opts.alias})
	if err == nil && opts.stats != nil {
		s.reportInPayload(v, sizes{len(m.data), packed})
	}
	return err
}

// The functions below report to the stats handler; they are called only if there is one.

func (s *serverStream) reportBegin(h stats.Handler) context.Context {
	c := s.conn
	ctx := h.TagRPC(&s.callContext, &stats.RPCTagInfo{FullMethodName: s.method.name})
	begin := &stats.Begin{BeginTime: time.Now()}
	if d := s.method.stream; d != nil {
		begin.IsClientStream, begin.IsServerStream = d.ClientStreams, d.ServerStreams
	}
	h.HandleRPC(ctx, &stats.InHeader{
		FullMethod: s.method.name, RemoteAddr: c.peer.Addr, LocalAddr: c.peer.LocalAddr,
		Compression: compressorName(s.received), Header: s.incoming(),
	})
	h.HandleRPC(ctx, begin)
	s.statsCtx, s.began = ctx, begin.BeginTime
	return ctx
}

func compressorName(c encoding.Compressor) string {
	if c == nil {
		return ""
	}
	return c.Name()
}

func (s *serverStream) reportInPayload(v any, size sizes) {
	s.conn.server.opts.stats.HandleRPC(s.statsCtx, &stats.InPayload{
		Payload: v, Length: size.plain, CompressedLength: size.packed, WireLength: size.packed + prefixLen, RecvTime: time.Now(),
	})
}

// reportHeader reports the response's header, once.
func (s *serverStream) reportHeader() {
	s.conn.mu.Lock()
	reported, md := s.headerReported, s.header.Copy()
	s.headerReported = true
	s.conn.mu.Unlock()
	if !reported {
		s.conn.server.opts.stats.HandleRPC(s.statsCtx, &stats.OutHeader{Header: md, Compression: compressorName(s.sent)})
	}
}

func (s *serverStream) reportOutPayload(ctx context.Context, v any, b *buffer) {
	s.reportHeader()
	size := b.sizes()
	s.conn.server.opts.stats.HandleRPC(ctx, &stats.OutPayload{
		Payload: v, Length: size.plain, CompressedLength: size.packed, WireLength: len(b.data), SentTime: time.Now(),
	})
}

func (s *serverStream) reportEnd(ctx context.Context, h stats.Handler, st *status.Status) {
	if len(s.header) > 0 {
		s.reportHeader()
	}
	h.HandleRPC(ctx, &stats.OutTrailer{Trailer: s.trailer})
	h.HandleRPC(ctx, &stats.End{BeginTime: s.began, EndTime: time.Now(), Error: st.Err()})
}
