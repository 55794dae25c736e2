package creditrpc

import (
	"context"
	"errors"
	"io"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A serverCall is one call on a server. It is never reused, because handlers may keep its context.
type serverCall struct {
	rpccall.Context
	stream link.Stream
	conn   *serverConn
	method *rpccall.Method
	meta   []byte // the encoded metadata of the request

	// Guarded by the connection's lock.
	inbox      rpccall.Queue[link.Message]
	requestErr error // not nil if the request's messages are invalid
	ended      bool  // the client sends no more messages
	queued     bool  // the handler of a unary call will run, or has run
	header     metadata.MD
	trailer    metadata.MD
	headerSent bool // the header was sent
	statusSent bool // the status was sent

	aliased         link.Message  // the message into which a unary call's request may point
	gotMessage      bool          // the handler has received a message
	signal, drained chan struct{} // streams only: wake RecvMsg and SendMsg
}

var _ rpccall.Call = (*serverCall)(nil)

// ContextEnded wakes the handler.
func (s *serverCall) ContextEnded() { s.wake() }

func (s *serverCall) wake() {
	if s.signal != nil {
		rpccall.WakeOne(s.signal)
		rpccall.WakeOne(s.drained)
	}
}

// ContextValue returns the values that grpc-go's packages look up.
func (s *serverCall) ContextValue(key any) any {
	switch key {
	case rpccall.Keys.Incoming:
		return readMeta(s.meta)
	case rpccall.Keys.Peer:
		return s.conn.peer
	case rpccall.Keys.TransportStream:
		return s
	}
	return s.conn.ctx.Value(key)
}

// requestEnded is called when the client sends no more messages. The lock is held.
func (s *serverCall) requestEnded() {
	s.ended = true
	if s.signal == nil && !s.queued {
		s.queued = true
		s.conn.ready = append(s.conn.ready, s)
	}
	s.wake()
}

// abort cancels the call. If its handler will not run, abort releases the call. The lock is held.
func (s *serverCall) abort(err error) {
	if s.signal == nil && !s.queued {
		s.queued = true
		s.conn.release(s, false)
	}
	s.Cancel(err)
}

// serve runs the handler and ends the call. Workers call it.
func (s *serverCall) serve() {
	if s.method.Unary != nil {
		s.serveUnary()
	} else {
		s.serveStream()
	}
	s.Cancel(context.Canceled)
}

func (s *serverCall) serveUnary() {
	opts := &s.conn.server.opts
	defer s.aliased.Release()       // after the answer is encoded, which may point into aliased
	if err := s.Err(); err != nil { // the call has already been cancelled, or passed its deadline
		s.sendResponse(nil, err)
		return
	}
	reply, err := s.method.Unary.Handler(s.method.Impl, &s.Context, s.decodeRequest, opts.unaryInterceptor)
	if err != nil {
		s.sendResponse(nil, err)
		return
	}
	s.sendResponse(encode(reply, s.conn.sendLimit(opts.maxSend)))
}

// decodeRequest decodes the message of a unary call.
func (s *serverCall) decodeRequest(v any) error {
	if s.requestErr != nil {
		return s.requestErr
	}
	c := s.conn
	c.Mu.Lock()
	several := s.inbox.Len() > 1
	m, ok := s.inbox.Take()
	c.link.ReturnHeld(&s.stream) // before the answer, so that a slow handler blocks no other call
	c.Flush()
	c.Mu.Unlock()
	switch {
	case !ok:
		return status.Error(codes.Internal, "creditrpc: request without a message")
	case several:
		m.Release()
		return status.Error(codes.Internal, "creditrpc: more than one message in a unary request")
	}
	if s.conn.server.opts.alias {
		s.aliased = m
		return unmarshal(m.Data, v, rpccall.UnmarshalAliased)
	}
	return decode(&m, v, s.conn.server.opts.maxReceive)
}

// sendResponse sends the answer, if there is one, and the status.
func (s *serverCall) sendResponse(reply *batchio.Buffer, err error) {
	st := rpccall.StatusOf(err)
	c := s.conn
	c.Mu.Lock()
	if reply != nil && !s.statusSent && s.stream.Open() {
		s.sendHeaderLocked()
		s.statusSent = len(s.trailer) == 0 // a message can also say that the call has succeeded
		c.link.Send(&s.stream, batchio.Payload{Data: reply.Data, Owner: reply}, s.statusSent)
		reply = nil
	}
	s.sendStatusLocked(st)
	c.release(s, st.Code() == codes.OK)
	c.FlushBatch()
	full := c.link.Pending() >= batchio.MinOutput
	c.Mu.Unlock()
	if reply != nil {
		reply.Release()
	}
	if full { // let the writer write these answers before the next call runs
		runtime.Gosched()
	}
}

// sendHeaderLocked sends the header, unless it was sent or has no metadata. The lock is held.
func (s *serverCall) sendHeaderLocked() {
	if !s.headerSent {
		s.headerSent = true
		if len(s.header) > 0 {
			s.conn.link.SendHeader(&s.stream, appendMeta(s.header))
		}
	}
}

// sendStatusLocked ends the call, unless it has ended. The lock is held.
func (s *serverCall) sendStatusLocked(st *status.Status) {
	if !s.statusSent && s.stream.Open() {
		s.statusSent = true
		s.sendHeaderLocked()
		s.conn.link.SendStatus(&s.stream, newEnding(st, s.trailer))
	}
}

// endOnError returns err. If err is not nil, it also sends err's status to the client at once, and
// ends the call's context, as grpc-go does. So a handler that ignores the error reports no success.
func (s *serverCall) endOnError(err error) error {
	if err != nil {
		s.conn.Mu.Lock()
		s.sendStatusLocked(rpccall.StatusOf(err))
		s.conn.Flush()
		s.conn.Mu.Unlock()
		s.Cancel(context.Canceled)
	}
	return err
}

func (s *serverCall) serveStream() {
	s.StartTimer() // a handler that waits must wake at the deadline
	err := s.method.ServeStream(&serverStream{s}, s.conn.server.opts.streamInterceptor)
	if err == nil {
		err = s.Err() // a call past its deadline fails, even if its handler returns nil
	}
	s.sendResponse(nil, err)
}

var _ grpc.ServerTransportStream = (*serverCall)(nil)

// Method returns the full name of the method.
func (s *serverCall) Method() string { return s.method.Name }

// SetHeader adds to the header metadata.
func (s *serverCall) SetHeader(md metadata.MD) error { return s.putHeader(md, false) }

// SendHeader sends the header.
func (s *serverCall) SendHeader(md metadata.MD) error { return s.putHeader(md, true) }

func (s *serverCall) putHeader(md metadata.MD, send bool) error {
	c := s.conn
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case len(md) == 0 && !send:
		return nil
	case send && s.over():
		return s.endedError()
	case s.headerSent, s.over():
		return status.Error(codes.Internal, "creditrpc: SetHeader or SendHeader after the header was sent, or after the call's end")
	}
	if err := s.addMetadata(&s.header, md); err != nil {
		return err
	}
	if send {
		s.headerSent = true
		c.link.SendHeader(&s.stream, appendMeta(s.header))
		c.Flush()
	}
	return nil
}

// SetTrailer adds to the trailer metadata.
func (s *serverCall) SetTrailer(md metadata.MD) error {
	s.conn.Mu.Lock()
	defer s.conn.Mu.Unlock()
	if len(md) > 0 && s.over() {
		return status.Error(codes.Internal, "creditrpc: SetTrailer after the call's end")
	}
	return s.addMetadata(&s.trailer, md)
}

// over reports whether nothing more can be sent. The lock is held.
func (s *serverCall) over() bool { return s.statusSent || !s.stream.Open() || s.Err() != nil }

func (s *serverCall) endedError() error {
	if err := s.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, "creditrpc: the call has ended")
}

// addMetadata adds metadata, or returns an error if the client accepts less. The lock is held.
func (s *serverCall) addMetadata(to *metadata.MD, md metadata.MD) error {
	joined := metadata.Join(*to, md)
	err := checkMeta(joined, int(s.conn.link.Peer().MaxMeta))
	if err == nil {
		*to = joined
	}
	return err
}

// A serverStream is the stream that the handler of a streaming call gets.
type serverStream struct{ *serverCall }

var _ grpc.ServerStream = serverStream{}

// Context returns the call's context.
func (s serverStream) Context() context.Context { return &s.serverCall.Context }

// SetTrailer adds to the trailer metadata. It drops metadata that is too long or too late, without
// an error.
func (s serverStream) SetTrailer(md metadata.MD) { _ = s.serverCall.SetTrailer(md) }

// SendMsg sends a message, and waits until flow control allows that. A message that cannot be sent
// ends the call.
func (s serverStream) SendMsg(v any) error {
	c := s.conn
	b, err := encode(v, c.sendLimit(c.server.opts.maxSend))
	if err != nil {
		return s.endOnError(err)
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if s.over() {
		b.Release()
		return s.endedError()
	}
	s.sendHeaderLocked()
	c.link.Send(&s.stream, batchio.Payload{Data: b.Data, Owner: b}, false)
	for !s.stream.Idle() && s.Err() == nil {
		c.Flush()
		c.Mu.Unlock()
		<-s.drained
		c.Mu.Lock()
	}
	c.Flush()
	if s.stream.Over() || s.Err() != nil {
		return s.endedError()
	}
	return nil
}

// RecvMsg receives a message. It returns io.EOF after the client's last message. Other errors end
// the call.
func (s serverStream) RecvMsg(v any) error {
	err := s.receive(v)
	if errors.Is(err, io.EOF) {
		return err
	}
	return s.endOnError(err)
}

func (s serverStream) receive(v any) error {
	m, err := s.nextMessage()
	switch {
	case errors.Is(err, io.EOF) && !s.gotMessage && !s.method.Stream.ClientStreams:
		return status.Error(codes.Internal, "creditrpc: request without a message")
	case err != nil:
		return err
	}
	s.gotMessage = true
	if err := decode(&m, v, s.conn.server.opts.maxReceive); err != nil || s.method.Stream.ClientStreams {
		return err
	}
	if m, err = s.nextMessage(); err == nil { // only the end may follow
		m.Release()
		return status.Error(codes.Internal, "creditrpc: more than one message in a unary request")
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// nextMessage waits for a message, or for the end of the client's messages.
func (s serverStream) nextMessage() (link.Message, error) {
	c := s.conn
	for {
		c.Mu.Lock()
		m, ok := s.inbox.Take()
		fault, ended := s.requestErr, s.ended
		if ok {
			c.link.MessageRead(&s.stream, m)
			c.Flush()
		}
		c.Mu.Unlock()
		switch {
		case ok:
			return m, nil
		case s.Err() != nil:
			return m, status.FromContextError(s.Err()).Err()
		case fault != nil:
			return m, fault
		case ended:
			return m, io.EOF
		}
		<-s.signal
	}
}
