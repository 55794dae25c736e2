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
)

// clientStream is a stream of any kind at the client. To connect-go all are
// bidirectional: on the wire the kinds do not differ.
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
	if err := checkCall(ctx, options); err != nil {
		return nil, err
	}
	conn, err := c.caller(method).CallBidiStream(ctx).Conn()
	if err != nil {
		return nil, toStatus(ctx, err)
	}
	if md, has := metadata.FromOutgoingContext(ctx); has {
		putMetadata(conn.RequestHeader(), md)
	}
	// Nothing but the header: whoever waits for the answer's may have nothing
	// to say before.
	if err := conn.Send(nil); err != nil {
		return nil, toStatus(ctx, err)
	}
	s := &clientStream{ctx: ctx, conn: conn, single: !desc.ServerStreams, options: options}
	s.finish = sync.OnceFunc(func() {
		report(s.options, conn)
		_ = conn.CloseRequest() // the call has said what there is to say
		_ = conn.CloseResponse()
	})
	return s, nil
}

func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. io.EOF means that RecvMsg knows more.
func (s *clientStream) SendMsg(message any) error {
	err := s.conn.Send(message)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return toStatus(s.ctx, err)
}

func (s *clientStream) CloseSend() error {
	_ = s.conn.CloseRequest() // RecvMsg knows more
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
	case err == nil: // the one answer, which counts when the call has ended well
		err = s.conn.Receive(&emptypb.Empty{})
		if err == nil {
			return status.Error(codes.Internal, "connect: a second answer to a call that has one")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	case errors.Is(err, io.EOF) && s.single:
		return status.Error(codes.Internal, "connect: the call ended without its answer")
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return toStatus(s.ctx, err)
}

func (s *clientStream) Header() (metadata.MD, error) { return metadataIn(s.conn.ResponseHeader()), nil }

func (s *clientStream) Trailer() metadata.MD { return metadataIn(s.conn.ResponseTrailer()) }
