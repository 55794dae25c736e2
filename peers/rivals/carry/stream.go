package carry

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Messages sends and receives the messages of a library's stream, at either end.
type Messages interface {
	SendMsg(any) error
	RecvMsg(any) error
}

// ServerStream makes a grpc.ServerStream of a library's stream.
type ServerStream struct {
	Messages
	Ctx context.Context //nolint:containedctx // grpc.ServerStream has a context
}

var _ grpc.ServerStream = (*ServerStream)(nil)

// SetHeader implements grpc.ServerStream.
func (*ServerStream) SetHeader(metadata.MD) error { return errNoMetadata }

// SendHeader implements grpc.ServerStream.
func (*ServerStream) SendHeader(metadata.MD) error { return errNoMetadata }

// SetTrailer implements grpc.ServerStream.
func (*ServerStream) SetTrailer(metadata.MD) {}

// Context implements grpc.ServerStream.
func (s *ServerStream) Context() context.Context { return s.Ctx }

// clientStream makes a grpc.ClientStream of a Session's stream.
type clientStream struct {
	Stream
	client *Client
	ctx    context.Context //nolint:containedctx // grpc.ClientStream has a context
	single bool            // the server sends one message
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (*clientStream) Header() (metadata.MD, error) { return nil, nil }
func (*clientStream) Trailer() metadata.MD         { return nil }
func (s *clientStream) Context() context.Context   { return s.ctx }

func (s *clientStream) SendMsg(m any) error {
	err := s.Stream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.client.explain(s.ctx, err)
	}
	return err
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.Stream.RecvMsg(m)
	switch {
	case err == nil:
		s.client.stopClock()
		if s.single {
			return s.end()
		}
		return nil
	case errors.Is(err, io.EOF) && s.ctx.Err() == nil:
		_ = s.Stream.End() // the call has ended well
		return io.EOF
	}
	err = s.client.explain(s.ctx, err)
	_ = s.Stream.End() // err is the cause
	return err
}

// end waits for the status of a call whose one message has come.
func (s *clientStream) end() error {
	err := s.Stream.End()
	if err != nil {
		return s.client.explain(s.ctx, err)
	}
	return nil
}
