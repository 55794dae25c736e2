package connectstack

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"wirelab.dev/internal/wire/stack"
)

// clientStream is the client's end of a stream of any kind. For connect-go all are
// bidirectional, because the kinds do not differ on the wire.
type clientStream struct {
	ctx     context.Context
	conn    connect.StreamingClientConn
	single  bool // the server sends one message
	options []grpc.CallOption
	finish  func()
}

var _ grpc.ClientStream = (*clientStream)(nil)

// NewStream implements grpc.ClientConnInterface.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := stack.CheckCall(ctx, name, options); err != nil {
		return nil, err
	}
	conn, err := c.caller(method).CallBidiStream(ctx).Conn()
	if err != nil {
		return nil, toStatus(ctx, err)
	}
	if md, has := metadata.FromOutgoingContext(ctx); has {
		putMetadata(conn.RequestHeader(), md)
	}
	// Send only the header: the caller may wait for the answer's header before it
	// sends a message.
	if err := conn.Send(nil); err != nil {
		return nil, toStatus(ctx, err)
	}
	s := &clientStream{ctx: ctx, conn: conn, single: !desc.ServerStreams, options: options}
	s.finish = sync.OnceFunc(func() {
		report(s.options, conn)
		_ = conn.CloseRequest() // the call has its result already
		_ = conn.CloseResponse()
	})
	return s, nil
}

func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. After io.EOF, RecvMsg returns the reason.
func (s *clientStream) SendMsg(message any) error {
	err := s.conn.Send(message)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return toStatus(s.ctx, err)
}

func (s *clientStream) CloseSend() error {
	_ = s.conn.CloseRequest() // RecvMsg returns the reason of a failure
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(message any) error {
	err := s.conn.Receive(message)
	if err == nil && !s.single {
		return nil
	}
	defer s.finish()
	switch {
	case err == nil: // the only answer, which is valid when the call has ended with OK
		err = s.conn.Receive(&emptypb.Empty{})
		if err == nil {
			return status.Error(codes.Internal, "connect: a second answer to a call that has one answer")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	case errors.Is(err, io.EOF) && s.single:
		return status.Error(codes.Internal, "connect: the call ended with status OK but without an answer")
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return toStatus(s.ctx, err)
}

func (s *clientStream) Header() (metadata.MD, error) { return metadataIn(s.conn.ResponseHeader()), nil }

func (s *clientStream) Trailer() metadata.MD { return metadataIn(s.conn.ResponseTrailer()) }
