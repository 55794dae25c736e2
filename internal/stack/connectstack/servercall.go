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

	"wirelab.dev/internal/stack"
)

// serveUnary lets a registered handler answer one message.
func serveUnary(method *stack.Method) func(context.Context, *connect.Request[envelope]) (*connect.Response[envelope], error) {
	return func(ctx context.Context, request *connect.Request[envelope]) (*connect.Response[envelope], error) {
		call := &unaryCall{method: method.FullName}
		decodeInto := func(message any) error {
			if err := request.Msg.open(message); err != nil {
				return status.Errorf(codes.InvalidArgument, "connect: decode the request: %v", err)
			}
			return nil
		}
		handling := metadata.NewIncomingContext(ctx, metadataIn(request.Header()))
		answer, err := method.Unary.Handler(method.Service, grpc.NewContextWithServerTransportStream(handling, call), decodeInto, nil)
		if info, has := connect.CallInfoForHandlerContext(ctx); has {
			header, trailer := call.take()
			if len(header) > 0 {
				putMetadata(info.ResponseHeader(), header)
			}
			if len(trailer) > 0 {
				putMetadata(info.ResponseTrailer(), trailer)
			}
		}
		if err != nil {
			return nil, toConnect(err)
		}
		return connect.NewResponse(&envelope{message: answer}), nil
	}
}

// unaryCall takes what grpc.SetHeader and grpc.SetTrailer say.
type unaryCall struct {
	method string

	mu              sync.Mutex
	sent            bool
	header, trailer metadata.MD
}

var _ grpc.ServerTransportStream = (*unaryCall)(nil)

var errHeaderSent = status.Error(codes.Internal, "connect: the header has been sent")

func (c *unaryCall) Method() string { return c.method }

func (c *unaryCall) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent {
		return errHeaderSent
	}
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader closes the header. It leaves with the answer.
func (c *unaryCall) SendHeader(md metadata.MD) error {
	err := c.SetHeader(md)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = true
	return err
}

func (c *unaryCall) SetTrailer(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = metadata.Join(c.trailer, md)
	return nil
}

func (c *unaryCall) take() (header, trailer metadata.MD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header, c.trailer
}

// serveStream lets a registered handler answer a stream of any kind. What one
// message means where the kind has only one is the generated code's affair.
func serveStream(method *stack.Method) func(context.Context, *connect.BidiStream[envelope, envelope]) error {
	return func(ctx context.Context, stream *connect.BidiStream[envelope, envelope]) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := &serverStream{method: method.FullName, conn: stream.Conn(), cancel: cancel}
		ctx = metadata.NewIncomingContext(ctx, metadataIn(stream.RequestHeader()))
		s.ctx = grpc.NewContextWithServerTransportStream(ctx, transportStream{s})
		return toConnect(method.Stream.Handler(method.Service, s))
	}
}

// serverStream is a stream of any kind at the server.
type serverStream struct {
	method string
	conn   connect.StreamingHandlerConn
	ctx    context.Context
	cancel context.CancelFunc // ends ctx when the wire fails, of which HTTP may not know

	mu   sync.Mutex // of what follows
	sent bool
}

var _ grpc.ServerStream = (*serverStream)(nil)

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent {
		return errHeaderSent
	}
	putMetadata(s.conn.ResponseHeader(), md)
	return nil
}

func (s *serverStream) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	s.closeHeader()
	return s.broken(s.conn.Send(nil))
}

func (s *serverStream) closeHeader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
}

func (s *serverStream) SetTrailer(md metadata.MD) { putMetadata(s.conn.ResponseTrailer(), md) }

func (s *serverStream) SendMsg(message any) error {
	s.closeHeader()
	return s.broken(s.conn.Send(message))
}

func (s *serverStream) RecvMsg(message any) error {
	err := s.conn.Receive(message)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return s.broken(err)
}

// broken is the status of a call whose client went away, or broke the rules. It
// ends the context in the first case.
func (s *serverStream) broken(err error) error {
	if err == nil {
		return nil
	}
	if ended := s.ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	failed, is := errors.AsType[*connect.Error](err)
	if is && failed.Code() != connect.CodeUnknown && failed.Code() != connect.CodeCanceled {
		return status.Error(codes.Code(failed.Code()), failed.Message())
	}
	s.cancel()
	return status.Errorf(codes.Canceled, "connect: the client went away: %v", err)
}

// transportStream is a serverStream as grpc.SetHeader and its like see it.
type transportStream struct{ *serverStream }

var _ grpc.ServerTransportStream = transportStream{}

func (t transportStream) Method() string { return t.method }

func (t transportStream) SetTrailer(md metadata.MD) error {
	t.serverStream.SetTrailer(md)
	return nil
}
