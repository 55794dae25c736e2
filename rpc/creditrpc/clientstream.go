package creditrpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A clientStream is a streaming call.
type clientStream struct {
	call       clientCall
	cc         *clientConn
	ctx        context.Context
	desc       *grpc.StreamDesc
	info       callInfo
	stop       func() bool // stops watching ctx
	gotMessage bool        // the only message of the answer has come
	closed     bool        // CloseSend was called, or the only message was sent
	finished   bool        // the call options got the end; guarded by the connection's lock
}

var _ grpc.ClientStream = (*clientStream)(nil)

// newStream is a grpc.Streamer. It ignores the *grpc.ClientConn.
func (c *Client) newStream(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	info, err := c.readOptions(opts)
	s := &clientStream{ctx: ctx, desc: desc, info: info}
	if err == nil {
		s.call = clientCall{streams: true, signal: make(chan struct{}, 1), drained: make(chan struct{}, 1), headers: make(chan struct{})}
		s.call.stream.Owner = &s.call
		s.cc, err = c.begin(ctx, &s.call, method, &info, nil)
	}
	if err != nil {
		info.CallOnFinish(err)
		return nil, err
	}
	s.stop = context.AfterFunc(ctx, func() { s.cc.cancel(&s.call, ctx.Err()) })
	return s, nil
}

// Context returns the call's context.
func (s *clientStream) Context() context.Context { return s.ctx }

// Header waits for the server's metadata, or for the call's end. If the call ends without
// metadata, Header returns nil, nil, and RecvMsg returns the call's error.
func (s *clientStream) Header() (metadata.MD, error) {
	<-s.call.headers
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	return s.call.header, nil
}

// Trailer returns the metadata that came with the call's end.
func (s *clientStream) Trailer() metadata.MD {
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	return s.call.trailer
}

// CloseSend tells the server that no more messages follow.
func (s *clientStream) CloseSend() error {
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	s.closed = true
	s.cc.link.End(&s.call.stream)
	s.cc.Flush()
	return nil
}

// SendMsg sends a message, and waits until flow control allows that. If the call has ended, SendMsg
// returns io.EOF, or nil if the client sends only one message, and RecvMsg returns the call's
// error. Any other error ends the call.
func (s *clientStream) SendMsg(v any) error {
	err := s.send(v)
	switch {
	case errors.Is(err, io.EOF) && !s.desc.ClientStreams:
		return nil
	case err != nil && !errors.Is(err, io.EOF):
		s.cc.cancel(&s.call, err)
		_ = s.deliverEnd(err)
	}
	return err
}

func (s *clientStream) send(v any) error {
	c, stream := s.cc, &s.call.stream
	b, err := encode(v, c.sendLimit(s.info.MaxSend))
	if err != nil {
		return err
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case s.closed:
		b.Release()
		return status.Error(codes.Internal, "creditrpc: SendMsg after CloseSend")
	case s.call.over:
		b.Release()
		return io.EOF
	}
	last := !s.desc.ClientStreams
	s.closed = last
	c.link.Send(stream, batchio.Payload{Data: b.Data, Owner: b}, last)
	for !stream.Idle() && !s.call.over {
		c.Flush()
		c.Mu.Unlock()
		<-s.call.drained
		c.Mu.Lock()
	}
	c.Flush()
	if s.call.over && s.call.err != nil {
		return io.EOF
	}
	return nil
}

// RecvMsg receives a message. After the last message, it returns io.EOF or the call's error.
func (s *clientStream) RecvMsg(v any) error {
	m, err := s.nextMessage()
	if err != nil {
		return s.deliverEnd(err)
	}
	if err = decode(&m, v, s.info.MaxReceive); err != nil {
		s.cc.cancel(&s.call, context.Canceled)
		return s.deliverEnd(err)
	}
	if s.desc.ServerStreams {
		return nil
	}
	s.gotMessage = true
	m, err = s.nextMessage() // only the end may follow
	switch {
	case err == nil:
		m.Release()
		s.cc.cancel(&s.call, context.Canceled)
		return s.deliverEnd(status.Error(codes.Internal, "creditrpc: more than one message in a unary response"))
	case errors.Is(err, io.EOF):
		_ = s.deliverEnd(nil)
		return nil
	}
	return s.deliverEnd(err)
}

// deliverEnd passes the end to the call options, unless it has done so before. It returns err.
func (s *clientStream) deliverEnd(err error) error {
	s.cc.Mu.Lock()
	first := !s.finished
	if s.finished = true; first {
		s.info.setResults(s.cc, &s.call)
	}
	s.cc.Mu.Unlock()
	switch {
	case !first:
		return err
	case errors.Is(err, io.EOF):
		s.info.CallOnFinish(nil)
	default:
		s.info.CallOnFinish(err)
	}
	s.stop()
	return err
}

// nextMessage waits for a message, or for the call's end.
func (s *clientStream) nextMessage() (link.Message, error) {
	for {
		s.cc.Mu.Lock()
		m, ok := s.call.inbox.Take()
		if ok {
			s.cc.link.MessageRead(&s.call.stream, m)
			s.cc.Flush()
		}
		over := s.call.over
		s.cc.Mu.Unlock()
		switch {
		case ok:
			return m, nil
		case !over:
			<-s.call.signal
		case errors.Is(s.call.err, errRefused):
			return m, status.Error(codes.Unavailable, errRefused.Error())
		case s.call.err != nil:
			return m, s.call.err
		case !s.desc.ServerStreams && !s.gotMessage:
			return m, status.Error(codes.Internal, "creditrpc: response without a message")
		default:
			return m, io.EOF
		}
	}
}
