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

// serve runs the call's handler and ends the response, or parks the call. Workers call it.
func (s *serverCall) serve() {
	if !s.begun && !s.conn.h2.Begin(&s.h2) && s.conn.park(s) {
		return
	}
	if s.method.Unary != nil {
		s.serveUnary()
	} else {
		s.serveStream()
	}
	s.callContext.Cancel(context.Canceled)
}

func (s *serverCall) serveUnary() {
	opts := &s.conn.server.opts
	ctx := s.observe()
	if err := s.callContext.Err(); err != nil {
		// The call was cancelled, or passed its deadline, before it began.
		s.sendResponse(nil, err)
		return
	}
	reply, err := s.method.Unary.Handler(s.method.Impl, ctx, s.decodeRequest, opts.unaryInterceptor)
	if err != nil {
		s.sendResponse(nil, err)
		return
	}
	s.sendResponse(s.encode(reply))
}

func (s *serverCall) decodeRequest(v any) error {
	if s.requestErr != nil {
		return s.failed(s.requestErr)
	}
	m, _ := s.inbox.Take()
	return s.failed(s.decode(&m, v))
}

// failed ends the call with err, if it is not nil, and returns err. The client gets the status at
// once, as from grpc-go: the handler cannot then turn half a request into a success by returning
// nil.
func (s *serverCall) failed(err error) error {
	if err == nil {
		return nil
	}
	s.conn.Mu.Lock()
	defer s.conn.Mu.Unlock()
	s.sendStatusLocked(rpccall.StatusOf(err))
	s.conn.Flush()
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
		s.observer.received(v, size)
	}
	return err
}

func (s *serverCall) encode(v any) (*batchio.Buffer, error) {
	b, err := message.Encode(s.codec, s.sent, v, s.conn.server.opts.maxSend)
	if err == nil {
		s.observer.headerSent(s)
		s.observer.sent(v, message.SizesOf(b))
	}
	return b, err
}

// sendResponse sends the reply, if there is one, and the status.
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
	c.release(s)
	c.CallEnded(st.Code() == codes.OK)
	c.FlushBatch()
	c.Mu.Unlock()
	if reply != nil {
		reply.Release()
	}
	s.observer.responded(s, st)
}

func (s *serverCall) serveStream() {
	s.callContext.StartTimer() // a stream that waits must wake at its deadline
	api := &serverStream{s, s.observe()}
	s.sendResponse(nil, s.method.ServeStream(api, s.conn.server.opts.streamInterceptor))
}

var _ grpc.ServerTransportStream = (*serverCall)(nil)

func (s *serverCall) Method() string { return s.method.Name }

func (s *serverCall) SetHeader(md metadata.MD) error { return s.setHeader(md, false) }

func (s *serverCall) SendHeader(md metadata.MD) error { return s.setHeader(md, true) }

func (s *serverCall) SetTrailer(md metadata.MD) error {
	if err := wire.CheckMetadata(md); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	s.conn.Mu.Lock()
	defer s.conn.Mu.Unlock()
	switch {
	case len(md) == 0:
	case s.statusSent || !s.h2.Open():
		return status.Error(codes.Internal, "fastgrpc: SetTrailer after the call has ended")
	default:
		s.trailer = metadata.Join(s.trailer, md)
	}
	return nil
}

func (s *serverCall) setHeader(md metadata.MD, send bool) error {
	if err := wire.CheckMetadata(md); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	err := s.putHeader(md, send)
	if err == nil && send {
		s.observer.headerSent(s)
	}
	return err
}

func (s *serverCall) putHeader(md metadata.MD, send bool) error {
	c := s.conn
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case len(md) == 0 && !send:
	case s.headerSent:
		return status.Error(codes.Internal, "fastgrpc: SetHeader or SendHeader after the header was sent")
	case send && !s.h2.Open():
		return s.endedError()
	case send:
		s.sendHeaderLocked(md)
		c.Flush()
	default:
		s.header = metadata.Join(s.header, md)
	}
	return nil
}

func (s *serverCall) endedError() error {
	if err := s.callContext.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, "fastgrpc: the stream has ended")
}

// sendHeaderLocked sends the response's header, once.
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

// sendStatusLocked ends the response with its trailers, once.
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
		s.sendHeaderLocked(nil) // in a frame of its own, to separate it from the trailers
	}
	var fields []hpack.HeaderField
	if !s.headerSent {
		s.headerSent = true
		fields = s.headerFields()
	}
	fields = append(fields, wire.StatusFields(st)...)
	s.conn.h2.SendTrailers(&s.h2, noFields, wire.AppendMetadata(fields, s.trailer))
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

// SetSendCompressor makes the server compress the call's messages with a registered compressor
// that the client accepts; "identity" turns compression off. By default it uses the request's
// compressor. ctx is the handler's context. Call it before the header is sent. It replaces
// grpc.SetSendCompressor, which knows only grpc-go's streams.
func SetSendCompressor(ctx context.Context, name string) error {
	s, err := callOf(ctx)
	if err != nil {
		return err
	}
	c := encoding.GetCompressor(name)
	switch {
	case name == encoding.Identity:
		c = nil
	case c == nil:
		return fmt.Errorf("fastgrpc: compressor %q is not registered", name)
	case !slices.Contains(s.accepted(), name):
		return fmt.Errorf("fastgrpc: the client does not accept compressor %q, but %q", name, s.accepted())
	}
	s.conn.Mu.Lock()
	defer s.conn.Mu.Unlock()
	if s.headerSent || !s.h2.Open() {
		return errors.New("fastgrpc: SetSendCompressor after the header was sent, or the call has ended")
	}
	s.sent = c
	return nil
}

// ClientSupportedCompressors returns the compressors that the client accepts. It replaces
// grpc.ClientSupportedCompressors.
func ClientSupportedCompressors(ctx context.Context) ([]string, error) {
	s, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.accepted(), nil
}

func callOf(ctx context.Context) (*serverCall, error) {
	if s, ok := grpc.ServerTransportStreamFromContext(ctx).(*serverCall); ok {
		return s, nil
	}
	return nil, errors.New("fastgrpc: the context does not belong to a call on this server")
}

// accepted returns the names in the request's grpc-accept-encoding.
func (s *serverCall) accepted() []string {
	names := strings.Split(strings.Join(s.incoming()[wire.FieldAcceptEncoding], ","), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}
