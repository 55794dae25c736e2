package connectstack

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"wirelab.dev/internal/wire/stack"
)

const name = "connect" // used in errors of both stacks

type client struct {
	*stack.HTTPClient
	options []connect.ClientOption
	callers sync.Map // full name of an operation -> *caller
}

type caller = connect.Client[envelope, envelope]

var _ stack.Client = (*client)(nil)

func (c *client) caller(method string) *caller {
	if known, has := c.callers.Load(method); has {
		return known.(*caller)
	}
	made, _ := c.callers.LoadOrStore(method, connect.NewClient[envelope, envelope](requester{c.HTTPClient}, c.Base+method, c.options...))
	return made.(*caller)
}

func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := stack.CheckCall(ctx, name, options); err != nil {
		return err
	}
	request := connect.NewRequest(&envelope{message: args})
	if md, has := metadata.FromOutgoingContext(ctx); has {
		stack.PutMetadata(request.Header(), "", md, nil)
	}
	met := new(error) // gets the error of the HTTP request
	calling := context.WithValue(ctx, errorKey{}, met)
	var info connect.CallInfo
	if len(options) > 0 {
		calling, info = connect.NewClientContext(calling)
	}
	response, err := c.caller(method).CallUnary(calling, request)
	if info != nil {
		reportMetadata(options, info)
	}
	if ctx.Err() != nil && *met != nil {
		return stack.FailContext(ctx, *met)
	}
	if err != nil {
		return toStatus(ctx, err)
	}
	if err := response.Msg.open(reply); err != nil {
		return status.Errorf(codes.Internal, "connect: decode the answer: %v", err)
	}
	return nil
}

func reportMetadata(options []grpc.CallOption, answer interface {
	ResponseHeader() http.Header
	ResponseTrailer() http.Header
},
) {
	stack.ReportMetadata(options,
		func() metadata.MD { return stack.MetadataIn(answer.ResponseHeader(), "", nil) },
		func() metadata.MD { return stack.MetadataIn(answer.ResponseTrailer(), "", nil) })
}

// requester sends connect-go's requests, and corrects two of its faults.
//
// First: if reading an answer fails, connect-go ends the request body normally. The server may
// then take a cancelled call for a complete one. So requester makes the body fail.
//
// Second: if a unary call's context has ended, connect-go returns only the context's error. So
// requester keeps the request's own error.
type requester struct{ wire *stack.HTTPClient }

func (r requester) Do(request *http.Request) (*http.Response, error) {
	if request.ContentLength < 0 {
		request.Body = cancelableBody{ReadCloser: request.Body, ctx: request.Context()}
	}
	response, err := r.wire.Do(request)
	if met, wanted := request.Context().Value(errorKey{}).(*error); wanted && err != nil {
		*met = err
	}
	return response, err
}

type errorKey struct{}

// cancelableBody is a request body of unknown length. If its Read fails, HTTP/2 and HTTP/3 reset
// the stream.
type cancelableBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b cancelableBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if ended := b.ctx.Err(); ended != nil && errors.Is(err, io.EOF) {
		err = ended
	}
	return n, err
}

// clientStream is the client's end of a stream. All kinds of streams look the same on the wire.
type clientStream struct {
	ctx     context.Context
	conn    connect.StreamingClientConn
	single  bool // the server sends only one message
	options []grpc.CallOption
	finish  func()
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := stack.CheckCall(ctx, name, options); err != nil {
		return nil, err
	}
	conn, err := c.caller(method).CallBidiStream(ctx).Conn()
	if err != nil {
		return nil, toStatus(ctx, err)
	}
	if md, has := metadata.FromOutgoingContext(ctx); has {
		stack.PutMetadata(conn.RequestHeader(), "", md, nil)
	}
	// This sends only the header, because the caller may wait for an answer before it sends.
	if err := conn.Send(nil); err != nil {
		return nil, toStatus(ctx, err)
	}
	s := &clientStream{ctx: ctx, conn: conn, single: !desc.ServerStreams, options: options}
	s.finish = sync.OnceFunc(func() {
		reportMetadata(s.options, conn)
		_ = conn.CloseRequest() // ignore errors: the call has its result
		_ = conn.CloseResponse()
	})
	return s, nil
}

func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. After io.EOF, RecvMsg returns the error.
func (s *clientStream) SendMsg(message any) error {
	err := s.conn.Send(message)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return toStatus(s.ctx, err)
}

func (s *clientStream) CloseSend() error {
	_ = s.conn.CloseRequest() // ignore errors: RecvMsg reports them
	return nil
}

func (s *clientStream) RecvMsg(message any) error {
	err := s.conn.Receive(message)
	if err == nil && !s.single {
		return nil
	}
	defer s.finish()
	switch {
	case err == nil: // the only answer, which is valid only if the call ends with OK
		err = s.conn.Receive(&emptypb.Empty{})
		if err == nil {
			return status.Error(codes.Internal, "connect: the call got a second answer, but allows only one")
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

func (s *clientStream) Header() (metadata.MD, error) {
	return stack.MetadataIn(s.conn.ResponseHeader(), "", nil), nil
}

func (s *clientStream) Trailer() metadata.MD {
	return stack.MetadataIn(s.conn.ResponseTrailer(), "", nil)
}
