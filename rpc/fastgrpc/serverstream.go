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

// A serverStream is the grpc.ServerStream that the handler of a streaming call gets.
type serverStream struct {
	*serverCall
	ctx context.Context
}

var _ grpc.ServerStream = (*serverStream)(nil)

func (a *serverStream) Context() context.Context { return a.ctx }

// SetTrailer adds metadata to the response's trailer. Invalid metadata ends the call, because
// SetTrailer cannot return an error to the handler. If the call is over, SetTrailer does nothing.
func (a *serverStream) SetTrailer(md metadata.MD) {
	if a.endOnError(checkMetadata(md)) == nil {
		_ = a.serverCall.SetTrailer(md) // fails if the call is over
	}
}

// SendMsg sends a message. The caller may reuse m afterwards. An error ends the call.
func (a *serverStream) SendMsg(m any) error {
	b, err := a.encode(m)
	if err == nil {
		err = a.sendMessage(b)
	}
	return a.endOnError(err)
}

// RecvMsg receives a message. After the last one it returns io.EOF. Other errors end the call.
func (a *serverStream) RecvMsg(v any) error {
	a.alias.Release()
	m, ended, err := a.nextMessage()
	switch {
	case err != nil:
		return a.endOnError(err)
	case ended && !a.gotMessage && !a.method.Stream.ClientStreams:
		return a.endOnError(status.Error(codes.Internal, "fastgrpc: the request ended without a message, want one"))
	case ended:
		return io.EOF
	}
	a.gotMessage = true
	if err = a.decode(&m, v); err != nil || a.method.Stream.ClientStreams {
		return a.endOnError(err)
	}
	// The request must end after its only message.
	if m, ended, err = a.nextMessage(); err == nil && !ended {
		m.Release()
		err = status.Error(codes.Internal, "fastgrpc: the client sent more than one request message, want one")
	}
	return a.endOnError(err)
}

// nextMessage waits for the next message of a streaming call, or for the request's end.
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
			return m, false, status.Error(codes.Internal, "fastgrpc: the request ended in the middle of a message")
		case ended:
			return m, true, nil
		}
		<-s.signal
	}
}

// sendMessage sends a message of a streaming call. It waits until flow control lets the connection
// send the message, so that a fast server waits for a slow client.
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
