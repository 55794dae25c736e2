package rest

import (
	"context"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// NewStream implements grpc.ClientConnInterface.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := stack.CheckCallOptions("rest", options); err != nil {
		return nil, err
	}
	switch kind := stack.KindOf(desc); {
	case kind == stack.ClientStream:
		return c.newSending(ctx, method, options)
	case kind == stack.ServerStream:
		return &receiving{client: c, ctx: ctx, method: method, options: options, begun: make(chan struct{})}, nil
	case !c.duplex:
		return nil, status.Error(codes.Unimplemented, errBidi.Error())
	default:
		return c.newClientBidi(ctx, method, options)
	}
}

// outgoing is the body of a request that is a stream.
type outgoing struct {
	codec  *codec
	frames *io.PipeWriter
}

// SendMsg implements grpc.ClientStream. After io.EOF, RecvMsg returns the reason.
func (o *outgoing) SendMsg(message any) error {
	frame, err := o.codec.frameOf(message)
	if err != nil {
		_ = o.frames.CloseWithError(err)
		return err
	}
	if _, err := o.frames.Write(frame); err != nil {
		return io.EOF
	}
	return nil
}

// CloseSend implements grpc.ClientStream.
func (o *outgoing) CloseSend() error { return o.frames.Close() }

// begin makes a request whose body is what SendMsg sends. The request ends when end is
// called, when ctx ends, or when the client is closed; SendMsg then returns io.EOF.
func (c *client) begin(ctx context.Context, method string) (request *http.Request, out outgoing, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	body, frames := io.Pipe()
	request, err = c.newRequest(ctx, method, c.codec.stream, body)
	if err != nil {
		cancel()
		return nil, outgoing{}, nil, err
	}
	endWithClient := c.AfterClose(cancel)
	// net/http does not cancel a request while it reads the body.
	context.AfterFunc(ctx, func() { _ = body.CloseWithError(io.EOF) })
	return request, outgoing{codec: c.codec, frames: frames}, func() { endWithClient(); cancel() }, nil
}

// sending is the client's end of a client stream: many requests, one answer.
type sending struct {
	outgoing
	ctx     context.Context
	options []grpc.CallOption

	answered chan struct{} // closed when answer and err are set
	answer   answer
	err      error
	taken    bool
}

var _ grpc.ClientStream = (*sending)(nil)

func (c *client) newSending(ctx context.Context, method string, options []grpc.CallOption) (*sending, error) {
	request, out, end, err := c.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	s := &sending{outgoing: out, ctx: request.Context(), options: options, answered: make(chan struct{})}
	// The goroutine ends with the answer, with ctx, or with the client; RecvMsg
	// waits for it.
	go func() {
		defer close(s.answered)
		s.answer, s.err = c.exchange(request)
		end()
	}()
	return s, nil
}

func (s *sending) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ClientStream.
func (s *sending) RecvMsg(message any) error {
	<-s.answered
	if s.taken {
		return io.EOF
	}
	s.taken = true
	s.answer.report(s.options)
	if s.err != nil {
		return s.err
	}
	return s.codec.unmarshal(s.answer.body, message, codes.Internal)
}

func (s *sending) Header() (metadata.MD, error) {
	<-s.answered
	return metadataIn(s.answer.header, ""), nil
}

func (s *sending) Trailer() metadata.MD {
	<-s.answered
	return metadataIn(s.answer.header, trailerPrefix)
}
