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
	rpccall "wirelab.dev/rpc/call"
)

// A serverStream is the stream that the handler of a streaming call gets.
type serverStream struct{ *serverCall }

var _ grpc.ServerStream = serverStream{}

// Context returns the call's context.
func (s serverStream) Context() context.Context { return &s.serverCall.Context }

// SetTrailer adds to the trailer metadata. It drops metadata that is too long; the handler gets
// no error.
func (s serverStream) SetTrailer(md metadata.MD) { _ = s.serverCall.SetTrailer(md) }

// SendMsg sends a message, and waits until flow control has let it go.
func (s serverStream) SendMsg(v any) error {
	c := s.conn
	b, err := encode(v, s.conn.server.opts.maxSend)
	if err != nil {
		return err
	}
	c.Mu.Lock()
	if n := c.link.Peer().MaxMessage; uint64(len(b.Data)) > n {
		c.Mu.Unlock()
		defer b.Release()
		return rpccall.TooLarge("creditrpc: trying to send message", len(b.Data), int(n))
	}
	if !s.stream.Open() {
		c.Mu.Unlock()
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
	over := s.stream.Over()
	c.Flush()
	c.Mu.Unlock()
	if over || s.Err() != nil {
		return s.endedError()
	}
	return nil
}

func (s serverStream) endedError() error {
	if err := s.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, "creditrpc: the call has ended")
}

// RecvMsg receives a message. It returns io.EOF after the client's last message.
func (s serverStream) RecvMsg(v any) error {
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
	if m, err = s.nextMessage(); err == nil { // the only message must be followed by the end
		m.release()
		return status.Error(codes.Internal, "creditrpc: more than one message in a unary request")
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// nextMessage waits for a message, or for the end.
func (s serverStream) nextMessage() (message, error) {
	c := s.conn
	for {
		c.Mu.Lock()
		m, ok := s.inbox.Take()
		fault, ended := s.requestErr, s.ended
		if ok {
			c.link.Took(&s.stream)
			c.link.Read(&s.stream, m.Message)
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
