package connectstack

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/wire/stack"
)

// newHandler serves every operation at its full name. It also serves health checks and reflection.
// Clients of both protocols read HTTP status 404 as Unimplemented.
func newHandler(methods *stack.Methods) (http.Handler, error) {
	stack.RegisterHealthAndReflection(methods)
	options := settings().Server.Options()
	handlers := map[string]http.Handler{} // keys are paths; http.ServeMux would be slower
	for _, method := range methods.InOrder() {
		if method.Unary != nil {
			handlers[method.FullName] = connect.NewUnaryHandler(method.FullName, serveUnary(method), options...)
		} else {
			handlers[method.FullName] = connect.NewBidiStreamHandler(method.FullName, serveStream(method), options...)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, has := handlers[r.URL.Path]
		if !has {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}), nil
}

func serveUnary(method *stack.Method) func(context.Context, *connect.Request[envelope]) (*connect.Response[envelope], error) {
	return func(ctx context.Context, request *connect.Request[envelope]) (*connect.Response[envelope], error) {
		call := &stack.ServerCall{FullMethod: method.FullName}
		decodeInto := func(message any) error {
			if err := request.Msg.open(message); err != nil {
				return status.Errorf(codes.InvalidArgument, "connect: decode the request: %v", err)
			}
			return nil
		}
		handling := metadata.NewIncomingContext(ctx, stack.MetadataIn(request.Header(), "", nil))
		answer, err := method.Unary.Handler(method.Service, grpc.NewContextWithServerTransportStream(handling, call), decodeInto, nil)
		if info, has := connect.CallInfoForHandlerContext(ctx); has {
			if header, _ := call.TakeHeader(); len(header) > 0 {
				stack.PutMetadata(info.ResponseHeader(), "", header, nil)
			}
			if trailer := call.Trailer(); len(trailer) > 0 {
				stack.PutMetadata(info.ResponseTrailer(), "", trailer, nil)
			}
		}
		if err != nil {
			return nil, toConnect(err)
		}
		return connect.NewResponse(&envelope{message: answer}), nil
	}
}

// serveStream returns connect-go's handler for a stream. It does not limit the number of messages,
// because generated code does so.
func serveStream(method *stack.Method) func(context.Context, *connect.BidiStream[envelope, envelope]) error {
	return func(ctx context.Context, conn *connect.BidiStream[envelope, envelope]) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := serverStream{&streamCall{ServerCall: stack.ServerCall{FullMethod: method.FullName}, conn: conn.Conn(), cancel: cancel}}
		ctx = metadata.NewIncomingContext(ctx, stack.MetadataIn(conn.RequestHeader(), "", nil))
		s.ctx = grpc.NewContextWithServerTransportStream(ctx, s.streamCall)
		err := method.Stream.Handler(method.Service, s)
		s.closeHeader()
		stack.PutMetadata(s.conn.ResponseTrailer(), "", s.Trailer(), nil)
		return toConnect(err)
	}
}

// streamCall is the server's end of a stream, for grpc.SetHeader and similar functions.
type streamCall struct {
	stack.ServerCall
	conn   connect.StreamingHandlerConn
	ctx    context.Context
	cancel context.CancelFunc // ends ctx when a read or write fails, because HTTP may not do so
}

func (c *streamCall) closeHeader() {
	if header, first := c.TakeHeader(); first {
		stack.PutMetadata(c.conn.ResponseHeader(), "", header, nil)
	}
}

func (c *streamCall) SendHeader(md metadata.MD) error {
	if err := c.SetHeader(md); err != nil {
		return err
	}
	c.closeHeader()
	return c.failBroken(c.conn.Send(nil))
}

// failBroken returns the status of a call whose client broke the protocol or disconnected. If the
// client disconnected, it also ends the context.
func (c *streamCall) failBroken(err error) error {
	if err == nil {
		return nil
	}
	if ended := c.ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	failed, is := errors.AsType[*connect.Error](err)
	if is && failed.Code() != connect.CodeUnknown && failed.Code() != connect.CodeCanceled {
		return status.Error(codes.Code(failed.Code()), failed.Message())
	}
	c.cancel()
	return status.Errorf(codes.Canceled, "connect: the client went away: %v", err)
}

type serverStream struct{ *streamCall }

var _ grpc.ServerStream = serverStream{}

func (s serverStream) Context() context.Context { return s.ctx }

// SetTrailer implements grpc.ServerStream, whose SetTrailer cannot return an error.
func (s serverStream) SetTrailer(md metadata.MD) { _ = s.streamCall.SetTrailer(md) }

func (s serverStream) SendMsg(message any) error {
	s.closeHeader()
	return s.failBroken(s.conn.Send(message))
}

func (s serverStream) RecvMsg(message any) error {
	err := s.conn.Receive(message)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return s.failBroken(err)
}
