package fastgrpc

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// serve runs the call's handler and ends the response, or parks the call. Workers call it.
func (s *serverStream) serve() {
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

func (s *serverStream) serveUnary() {
	opts := &s.conn.server.opts
	ctx := s.observe()
	if err := s.callContext.Err(); err != nil {
		// Cancelled, or past its deadline, before it began.
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

// decodeRequest decodes the message of a unary call.
func (s *serverStream) decodeRequest(v any) error {
	if s.requestErr != nil {
		return s.failed(s.requestErr)
	}
	m, _ := s.take()
	return s.failed(s.decode(&m, v))
}

// failed ends the call with err, if it is not nil, and returns it. The client gets the
// status at once, as from grpc-go: a handler that then returns something else cannot
// turn half a request into a success.
func (s *serverStream) failed(err error) error {
	if err == nil {
		return nil
	}
	s.conn.Mu.Lock()
	defer s.conn.Mu.Unlock()
	s.sendStatusLocked(rpccall.StatusOf(err))
	s.conn.Flush()
	return err
}

// decode decodes a message, which v may alias if the server's options say so.
func (s *serverStream) decode(m *message, v any) error {
	opts := &s.conn.server.opts
	how := decodeOptions{limit: opts.maxReceive, observer: s.observer}
	if opts.alias {
		how.alias = &s.alias
	}
	return decodeMessage(s.codec, s.received, m, v, how)
}

func (s *serverStream) encode(v any) (*batchio.Buffer, error) {
	b, err := encodeMessage(s.codec, s.sent, v, s.conn.server.opts.maxSend)
	if err == nil {
		s.observer.headerSent(s)
		s.observer.sent(v, sizesOf(b))
	}
	return b, err
}

// sendResponse sends the reply, if there is one, and the status.
func (s *serverStream) sendResponse(reply *batchio.Buffer, err error) {
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

func (s *serverStream) serveStream() {
	s.callContext.StartTimer() // a stream that waits must wake at its deadline
	api := &serverStreamAPI{s, s.observe()}
	s.sendResponse(nil, s.method.ServeStream(api, s.conn.server.opts.streamInterceptor))
}

var _ grpc.ServerTransportStream = (*serverStream)(nil)

// Method returns the full name of the method.
func (s *serverStream) Method() string { return s.method.Name }

// SetHeader adds to the response's header metadata.
func (s *serverStream) SetHeader(md metadata.MD) error { return s.setHeader(md, false) }

// SendHeader sends the response's header.
func (s *serverStream) SendHeader(md metadata.MD) error { return s.setHeader(md, true) }

// SetTrailer adds to the response's trailer metadata.
func (s *serverStream) SetTrailer(md metadata.MD) error {
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

func (s *serverStream) setHeader(md metadata.MD, send bool) error {
	if err := wire.CheckMetadata(md); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	err := s.putHeader(md, send)
	if err == nil && send {
		s.observer.headerSent(s)
	}
	return err
}

func (s *serverStream) putHeader(md metadata.MD, send bool) error {
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

// serverStreamAPI is what the handler of a streaming call gets.
type serverStreamAPI struct {
	*serverStream
	ctx context.Context
}

var _ grpc.ServerStream = (*serverStreamAPI)(nil)

// Context returns the call's context; it ends with the call.
func (a *serverStreamAPI) Context() context.Context { return a.ctx }

// SetTrailer adds to the response's trailer metadata. Metadata that cannot be sent ends
// the call: the handler is not told.
func (a *serverStreamAPI) SetTrailer(md metadata.MD) { _ = a.failed(a.serverStream.SetTrailer(md)) }

// SendMsg sends a message; the caller may reuse m when it returns. An error ends the
// call, see failed.
func (a *serverStreamAPI) SendMsg(m any) error {
	b, err := a.encode(m)
	if err == nil {
		err = a.sendMessage(b)
	}
	return a.failed(err)
}

// RecvMsg receives a message. It returns io.EOF after the client's last message. Any
// other error ends the call, see failed.
func (a *serverStreamAPI) RecvMsg(v any) error {
	a.alias.release()
	m, ended, err := a.nextMessage()
	switch {
	case err != nil:
		return a.failed(err)
	case ended && !a.gotMessage && !a.method.Stream.ClientStreams:
		return a.failed(status.Error(codes.Internal, "fastgrpc: request without a message"))
	case ended:
		return io.EOF
	}
	a.gotMessage = true
	if err = a.decode(&m, v); err != nil || a.method.Stream.ClientStreams {
		return a.failed(err)
	}
	// The only message must be followed by the end.
	if m, ended, err = a.nextMessage(); err == nil && !ended {
		m.release()
		err = status.Error(codes.Internal, "fastgrpc: more than one message in a unary request")
	}
	return a.failed(err)
}
