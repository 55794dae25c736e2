package creditrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A clientStream is a streaming call.
type clientStream struct {
	call       clientCall
	cc         *clientConn
	ctx        context.Context
	ended      rpccall.EndingContext // the context that Context returns
	desc       *grpc.StreamDesc
	info       callInfo
	stop       [2]func() bool // stop watching ctx and the client; guarded by the connection's lock
	gotMessage bool           // the only message of the answer has come
	closed     bool           // CloseSend was called, or the only message was sent
	finishOnce sync.Once
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
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	s.stop[0] = context.AfterFunc(ctx, func() { _ = s.fail(ctx.Err()) })
	s.stop[1] = context.AfterFunc(c.ctx, func() { _ = s.deliverEnd(ErrClosed) })
	return s, nil
}

// Context returns the call's context, with the peer. It ends when the program gets to know the
// call's end, or closes the client.
func (s *clientStream) Context() context.Context { return s.ended.Get(s.ctx, s.cc.peer) }

// Header waits for the server's metadata, or for the call's end. If the call ends without
// metadata, Header returns nil, nil, and RecvMsg returns the call's error.
func (s *clientStream) Header() (metadata.MD, error) {
	<-s.call.headers
	s.cc.Mu.Lock()
	md, answered, err := s.call.header, s.call.answered, s.call.err
	s.cc.Mu.Unlock()
	if !answered {
		_ = s.deliverEnd(err)
	}
	return md, nil
}

// Trailer returns the metadata that came with the call's end.
func (s *clientStream) Trailer() metadata.MD {
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	return s.call.trailer
}

// CloseSend tells the server that no more messages follow.
func (s *clientStream) CloseSend() error {
	s.closed = true
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
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
		return s.fail(err)
	}
	return err
}

func (s *clientStream) send(v any) error {
	c, stream, last := s.cc, &s.call.stream, !s.desc.ClientStreams
	if s.closed {
		return status.Error(codes.Internal, "creditrpc: SendMsg after CloseSend")
	}
	s.closed = last
	b, err := encode(v, c.sendLimit(s.info.MaxSend))
	if err != nil {
		return err
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if s.call.over {
		b.Release()
		return io.EOF
	}
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
		return s.fail(err)
	}
	if s.desc.ServerStreams {
		return nil
	}
	s.gotMessage = true
	m, err = s.nextMessage() // only the end may follow
	switch {
	case err == nil:
		m.Release()
		return s.fail(status.Error(codes.Internal, "creditrpc: more than one message in a unary response"))
	case errors.Is(err, io.EOF):
		_ = s.deliverEnd(nil)
		return nil
	}
	return s.deliverEnd(err)
}

// fail ends the call with an error, and cancels it on the server. It returns the error's status.
func (s *clientStream) fail(err error) error {
	s.cc.cancel(&s.call, err)
	return s.deliverEnd(rpccall.StatusOf(err).Err())
}

// deliverEnd ends the stream's context and passes the end to the call options, unless it has done
// so before. It returns err.
func (s *clientStream) deliverEnd(err error) error {
	s.finishOnce.Do(func() {
		s.cc.Mu.Lock()
		s.info.setResults(s.cc, &s.call)
		stop := s.stop
		s.cc.Mu.Unlock()
		stop[0]()
		stop[1]()
		s.ended.End(s.ctx)
		if errors.Is(err, io.EOF) {
			s.info.CallOnFinish(nil)
		} else {
			s.info.CallOnFinish(err)
		}
	})
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
		case s.call.err != nil:
			return m, s.call.err
		case !s.desc.ServerStreams && !s.gotMessage:
			return m, status.Error(codes.Internal, "creditrpc: response without a message")
		default:
			return m, io.EOF
		}
	}
}
