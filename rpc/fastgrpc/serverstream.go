package fastgrpc

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// A serverStream is the stream that the handler of a streaming call gets.
type serverStream struct {
	*serverCall
	ctx context.Context
}

var _ grpc.ServerStream = (*serverStream)(nil)

func (a *serverStream) Context() context.Context { return a.ctx }

// SetTrailer adds to the response's trailer metadata. Metadata that cannot be sent ends
// the call, because the handler gets no error.
func (a *serverStream) SetTrailer(md metadata.MD) { _ = a.failed(a.serverCall.SetTrailer(md)) }

// SendMsg sends a message; the caller may reuse m when it returns. An error ends the
// call, see failed.
func (a *serverStream) SendMsg(m any) error {
	b, err := a.encode(m)
	if err == nil {
		err = a.sendMessage(b)
	}
	return a.failed(err)
}

// RecvMsg receives a message. It returns io.EOF after the client's last message. Any
// other error ends the call, see failed.
func (a *serverStream) RecvMsg(v any) error {
	a.alias.Release()
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
	// The end must follow the only message.
	if m, ended, err = a.nextMessage(); err == nil && !ended {
		m.Release()
		err = status.Error(codes.Internal, "fastgrpc: more than one message in a unary request")
	}
	return a.failed(err)
}

// nextMessage waits for a message of a streaming call, or for the request's end.
func (s *serverCall) nextMessage() (m message.Message, ended bool, err error) {
	c := s.conn
	for {
		c.Mu.Lock()
		if m, ok := s.inbox.Take(); ok {
			c.h2.Consume(&s.h2, m.Credit)
			c.Flush()
			c.Mu.Unlock()
			return m, false, nil
		}
		fault, ended := s.requestErr, s.ended
		unfinished := s.inbox.Unfinished()
		c.Mu.Unlock()
		if err := s.callContext.Err(); err != nil {
			return m, false, status.FromContextError(err).Err()
		}
		switch {
		case fault != nil:
			return m, false, fault
		case ended && unfinished:
			return m, false, status.Error(codes.Internal, "fastgrpc: request ended within a message")
		case ended:
			return m, true, nil
		}
		<-s.signal
	}
}

// sendMessage queues a message of a streaming call and waits until flow control has let it into
// the connection's output. So a fast sender waits for a slow receiver.
func (s *serverCall) sendMessage(b *batchio.Buffer) error {
	c := s.conn
	c.Mu.Lock()
	if !s.h2.Open() || s.statusSent {
		c.Mu.Unlock()
		b.Release()
		return s.endedError()
	}
	s.sendHeaderLocked(nil)
	c.h2.SendData(&s.h2, batchio.Payload{Data: b.Data, Owner: b}, false)
	for s.h2.Queued() {
		c.Flush()
		c.Mu.Unlock()
		if err := s.callContext.Err(); err != nil {
			return status.FromContextError(err).Err()
		}
		<-s.drained
		c.Mu.Lock()
	}
	open := s.h2.Open()
	c.Flush()
	c.Mu.Unlock()
	if !open {
		return s.endedError()
	}
	return nil
}
