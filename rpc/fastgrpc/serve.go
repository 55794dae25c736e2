package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
	"wirelab.dev/rpc/h2"
)

// serve runs the call's handler and sends the response. If the handler may not run yet, it calls
// parkCall instead. Worker goroutines call serve.
func (s *serverCall) serve() {
	if !s.begun && !s.conn.h2.BeginCall(&s.h2) && s.conn.parkCall(s) {
		return
	}
	switch err := s.callContext.Err(); {
	case err != nil: // the call was cancelled, or its deadline passed, before the handler began
		s.sendResponse(nil, err)
	case s.method.Unary != nil:
		s.serveUnary()
	default:
		s.serveStream()
	}
	s.callContext.Cancel(context.Canceled)
	s.recycle()
}

func (s *serverCall) serveUnary() {
	opts := &s.conn.server.opts
	ctx := s.startObserver()
	reply, err := s.method.Unary.Handler(s.method.Impl, ctx, s.callHandle.decodeRequest, opts.unaryInterceptor)
	if err != nil {
		s.sendResponse(nil, err)
		return
	}
	s.sendResponse(s.encode(reply))
}

// decodeRequest decodes the request. Generated code calls it once, before the handler returns.
func (h *callHandle) decodeRequest(v any) error {
	s := h.call
	if s == nil {
		return h.endedError()
	}
	if s.requestErr != nil {
		return s.endOnError(s.requestErr)
	}
	m, _ := s.inbox.Take()
	return s.endOnError(s.decode(&m, v))
}

// endOnError returns err. If err is not nil, it also sends err's status to the client at once, and
// ends the call's context, as grpc-go does. A handler that ignores the error can then no longer
// report success.
func (s *serverCall) endOnError(err error) error {
	if err == nil {
		return nil
	}
	s.conn.Mu.Lock()
	s.sendStatusLocked(rpccall.StatusOf(err))
	s.conn.Flush()
	s.conn.Mu.Unlock()
	s.callContext.Cancel(context.Canceled)
	return err
}

func (s *serverCall) decode(m *message.Message, v any) error {
	opts := &s.conn.server.opts
	how := message.DecodeOptions{Limit: opts.maxReceive}
	if opts.alias {
		how.Alias = &s.alias
	}
	size, err := message.Decode(s.codec, s.received, m, v, how)
	if err == nil {
		s.observer.reportReceived(v, size)
	}
	return err
}

func (s *serverCall) encode(v any) (*batchio.Buffer, error) {
	b, err := message.Encode(s.codec, s.sent, v, s.conn.server.opts.maxSend)
	if err == nil {
		s.observer.reportHeaderSent(s)
		s.observer.reportSent(v, message.SizesOf(b))
	}
	return b, err
}

// sendResponse sends the reply, if it is not nil, and the status of err.
func (s *serverCall) sendResponse(reply *batchio.Buffer, err error) {
	st := rpccall.StatusOf(err)
	c := s.conn
	if long := reply != nil && len(reply.Data) > h2.ShortMessage; long != s.method.Long.Load() {
		s.method.Long.Store(long)
	}
	c.Mu.Lock()
	if s.h2.Open() && !s.statusSent {
		if reply != nil {
			s.sendHeaderLocked(nil)
			c.h2.SendData(&s.h2, batchio.Payload{Data: reply.Data, Owner: reply}, false)
			reply = nil
		}
		s.sendStatusLocked(st)
	}
	c.endCall(s, st.Code() == codes.OK)
	c.FlushBatch()
	c.Mu.Unlock()
	if reply != nil {
		reply.Release()
	}
	s.observer.reportTrailerAndEnd(s, st)
}

func (s *serverCall) serveStream() {
	s.callContext.StartTimer() // wakes a waiting stream at its deadline
	api := &serverStream{s, s.startObserver()}
	s.sendResponse(nil, s.method.ServeStream(api, s.conn.server.opts.streamInterceptor))
}

var _ grpc.ServerTransportStream = (*callHandle)(nil)

func (h *callHandle) Method() string { return h.method.Name }

func (h *callHandle) SetHeader(md metadata.MD) error { return h.setHeader(md, false) }

func (h *callHandle) SendHeader(md metadata.MD) error { return h.setHeader(md, true) }

func (h *callHandle) SetTrailer(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	h.conn.Mu.Lock()
	defer h.conn.Mu.Unlock()
	s := h.call
	switch {
	case len(md) == 0:
	case h.over():
		return status.Error(codes.Internal, "fastgrpc: SetTrailer was called after the call had ended")
	default:
		s.trailer = metadata.Join(s.trailer, md)
	}
	return nil
}

func (h *callHandle) setHeader(md metadata.MD, send bool) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	s, err := h.storeOrSendHeader(md, send)
	if err == nil && send && s.observer != nil {
		s.observer.reportHeaderSent(s)
	}
	return err
}

func (h *callHandle) storeOrSendHeader(md metadata.MD, send bool) (*serverCall, error) {
	c := h.conn
	c.Mu.Lock()
	defer c.Mu.Unlock()
	s := h.call
	switch {
	case len(md) == 0 && !send:
	case send && h.over():
		return s, h.endedError()
	case h.over(), s.headerSent:
		return s, status.Error(codes.Internal, "fastgrpc: SetHeader or SendHeader was called after the header had been sent, or the call had ended")
	case send:
		s.sendHeaderLocked(md)
		c.Flush()
	default:
		s.header = metadata.Join(s.header, md)
	}
	return s, nil
}

// over reports whether nothing more can be sent. The lock is held.
func (h *callHandle) over() bool {
	s := h.call
	return s == nil || s.statusSent || !s.h2.Open() || h.callContext.Err() != nil
}

func (h *callHandle) endedError() error {
	if err := h.callContext.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, "fastgrpc: the stream has already ended")
}

// sendHeaderLocked sends the response's header with md added, unless the header has been sent.
func (s *serverCall) sendHeaderLocked(md metadata.MD) {
	if s.headerSent {
		return
	}
	s.headerSent = true
	if md != nil {
		s.header = metadata.Join(s.header, md)
	}
	if s.sent == nil && len(s.header) == 0 && s.subtype == "" {
		s.conn.h2.SendHeaders(&s.h2, okHeaders, nil)
		return
	}
	s.conn.h2.SendHeaders(&s.h2, noFields, s.headerFields())
}

func (s *serverCall) headerFields() []hpack.HeaderField {
	contentType := wire.ContentType
	if s.subtype != "" {
		contentType += "+" + s.subtype
	}
	fields := []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: wire.FieldContentType, Value: contentType}}
	if s.sent != nil {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldEncoding, Value: s.sent.Name()})
	}
	return wire.AppendMetadata(fields, s.header)
}

// sendStatusLocked sends the trailers with the status, unless the response has ended.
func (s *serverCall) sendStatusLocked(st *status.Status) {
	if s.statusSent || !s.h2.Open() {
		return
	}
	s.statusSent = true
	if s.headerSent && len(s.trailer) == 0 && st.Code() == codes.OK && st.Message() == "" {
		s.conn.h2.SendTrailers(&s.h2, okTrailers, nil)
		return
	}
	if len(s.header) > 0 {
		s.sendHeaderLocked(nil) // separate, so that the client does not take the header for trailers
	}
	var fields []hpack.HeaderField
	if !s.headerSent {
		s.headerSent = true
		fields = s.headerFields()
	}
	of := wire.StatusFields(st)
	if of[len(of)-1].Name == wire.FieldDetails {
		delete(s.trailer, wire.FieldDetails) // the status's own details count
	}
	fields = append(fields, of...)
	s.conn.h2.SendTrailers(&s.h2, noFields, wire.AppendMetadata(fields, s.trailer))
}

// startObserver reports the begin of a call to the stats handler, if there is one. It returns the
// call's context, to which the stats handler may have added values.
func (s *serverCall) startObserver() context.Context {
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
		WireLength: s.headerLength, Compression: message.CompressorName(s.received), Header: s.incomingMetadata(),
	})
	s.observer.report(begin)
	return s.observer.ctx
}

// reportHeaderSent reports the response's header, once.
func (o *observer) reportHeaderSent(s *serverCall) {
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

func (o *observer) reportTrailerAndEnd(s *serverCall, st *status.Status) {
	if o == nil {
		return
	}
	if len(s.header) > 0 {
		o.reportHeaderSent(s)
	}
	if s.statusSent {
		o.report(&stats.OutTrailer{Trailer: s.trailer})
	}
	o.reportEnd(nil, st.Err())
}

// SetSendCompressor sets the compressor of the call's responses. The compressor must be registered,
// and the client must accept it. The name "identity" turns compression off. The default is the
// request's compressor. ctx is the handler's context. Handlers must call it before the header is
// sent, instead of grpc.SetSendCompressor, which supports only grpc-go's streams.
func SetSendCompressor(ctx context.Context, name string) error {
	h, err := handleFromContext(ctx)
	if err != nil {
		return err
	}
	c := encoding.GetCompressor(name)
	switch {
	case name == encoding.Identity:
		c = nil
	case c == nil:
		return fmt.Errorf("fastgrpc: compressor %q is not registered: import the package that registers it", name)
	case !slices.Contains(h.acceptedCompressors(), name):
		return fmt.Errorf("fastgrpc: the client does not accept the compressor %q: use one of %q", name, h.acceptedCompressors())
	}
	h.conn.Mu.Lock()
	defer h.conn.Mu.Unlock()
	s := h.call
	if h.over() || s.headerSent {
		return errors.New("fastgrpc: SetSendCompressor was called too late: the header has been sent, or the call has ended")
	}
	s.sent = c
	return nil
}

// ClientSupportedCompressors returns the names of the compressors that the client accepts. Handlers
// must call it instead of grpc.ClientSupportedCompressors.
func ClientSupportedCompressors(ctx context.Context) ([]string, error) {
	h, err := handleFromContext(ctx)
	if err != nil {
		return nil, err
	}
	return h.acceptedCompressors(), nil
}

func handleFromContext(ctx context.Context) (*callHandle, error) {
	if h, ok := grpc.ServerTransportStreamFromContext(ctx).(*callHandle); ok {
		return h, nil
	}
	return nil, errors.New("fastgrpc: the context does not belong to a call on a fastgrpc server: pass the handler's context")
}

// acceptedCompressors returns the names in the request's header field grpc-accept-encoding.
func (h *callHandle) acceptedCompressors() []string {
	names := strings.Split(strings.Join(h.incomingMetadata()[wire.FieldAcceptEncoding], ","), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}
