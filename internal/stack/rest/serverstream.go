package rest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// streamCall is what the kinds of server-side stream have in common.
type streamCall struct {
	*call
	ctx    context.Context
	cancel context.CancelFunc // ends ctx when the wire fails, of which net/http may not know
}

func newStreamCall(ctx context.Context, c *call) streamCall {
	ctx, cancel := context.WithCancel(ctx)
	return streamCall{call: c, ctx: ctx, cancel: cancel}
}

func (s *streamCall) Context() context.Context { return s.ctx }

// SetTrailer implements grpc.ServerStream, where it returns nothing.
func (s *streamCall) SetTrailer(md metadata.MD) { _ = s.call.SetTrailer(md) }

// broken is the status of a call whose client went away. It ends the context.
func (s *streamCall) broken(err error) error {
	if ended := s.ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	s.cancel()
	return status.Errorf(codes.Canceled, "rest: the client went away: %v", err)
}

// receive reads a frame of the request.
func (s *streamCall) receive(message any) error {
	request, err := s.codec.readFrame(s.r.Body)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		if _, is := status.FromError(err); is {
			return err
		}
		return s.broken(err)
	}
	return s.codec.unmarshal(request, message, codes.InvalidArgument)
}

// send writes a frame of the answer, which leaves at once.
func (s *streamCall) send(message any) error {
	frame, err := s.codec.frameOf(message)
	if err != nil {
		return err
	}
	if s.closeHeader() {
		s.beginStream()
	}
	if _, err := s.w.Write(frame); err != nil {
		return s.broken(err)
	}
	if err := http.NewResponseController(s.w).Flush(); err != nil {
		return s.broken(err)
	}
	return nil
}

// finish ends an answer that is a stream, with what the handler returned.
func (s *streamCall) finish(err error) {
	begun := !s.closeHeader()
	if err != nil && !begun {
		s.fail(err)
		return
	}
	if !begun {
		s.beginStream()
	}
	s.putTrailer(http.TrailerPrefix)
	putStatus(s.w.Header(), stack.StatusOf(err))
}

// upload is a client stream at the server: many requests, one answer.
type upload struct {
	streamCall
	answer any
}

var _ grpc.ServerStream = (*upload)(nil)

func serveUpload(ctx context.Context, c *call) {
	// Without full duplex net/http reads the rest of the request before it
	// sends an answer, and the client may be waiting for just that answer. A
	// writer that has no such mode has no such habit.
	_ = http.NewResponseController(c.w).EnableFullDuplex()
	s := &upload{streamCall: newStreamCall(ctx, c)}
	defer s.cancel()
	switch err := c.method.Stream.Handler(c.method.Service, s); {
	case err != nil:
		c.fail(err)
	case s.answer == nil:
		c.fail(status.Error(codes.Internal, "rest: the handler returned without an answer"))
	default:
		c.reply(s.answer)
	}
	// The rest of the request is read here, when the answer has left: in full
	// duplex net/http would do it too late, and panic on its end.
	_ = http.NewResponseController(c.w).Flush()
	_ = c.r.Body.Close()
}

// RecvMsg implements grpc.ServerStream.
func (s *upload) RecvMsg(message any) error { return s.receive(message) }

// SendMsg implements grpc.ServerStream. The answer leaves when the handler
// returns, since only then is it known to be one.
func (s *upload) SendMsg(message any) error {
	if s.answer != nil {
		return status.Error(codes.Internal, "rest: a client stream has one answer")
	}
	s.answer = message
	return nil
}

// download is a server stream at the server: one request, many answers.
type download struct {
	streamCall
	request []byte
	taken   bool
}

var _ grpc.ServerStream = (*download)(nil)

func serveDownload(ctx context.Context, c *call) {
	if !c.r.ProtoAtLeast(1, 1) {
		refuse(c.w, c.r, http.StatusHTTPVersionNotSupported, status.New(codes.Unimplemented, "rest: a stream of answers needs HTTP/1.1"))
		return
	}
	request, ok := c.readRequest()
	if !ok {
		return
	}
	c.stream = true
	s := &download{streamCall: newStreamCall(ctx, c), request: request}
	defer s.cancel()
	s.finish(c.method.Stream.Handler(c.method.Service, s))
}

// RecvMsg implements grpc.ServerStream.
func (s *download) RecvMsg(message any) error {
	if s.taken {
		return io.EOF
	}
	s.taken = true
	return s.codec.unmarshal(s.request, message, codes.InvalidArgument)
}

// SendMsg implements grpc.ServerStream.
func (s *download) SendMsg(message any) error { return s.send(message) }

// conversation is a bidirectional stream at the server. HTTP/2 and HTTP/3 carry
// it as it is: a request and its answer may be under way at once.
type conversation struct{ streamCall }

var _ grpc.ServerStream = (*conversation)(nil)

func serveConversation(ctx context.Context, c *call) {
	if !c.r.ProtoAtLeast(2, 0) {
		c.fail(status.Error(codes.Unimplemented, errBidi.Error()))
		return
	}
	c.stream = true
	s := &conversation{newStreamCall(ctx, c)}
	defer s.cancel()
	s.finish(c.method.Stream.Handler(c.method.Service, s))
}

// RecvMsg implements grpc.ServerStream.
func (s *conversation) RecvMsg(message any) error { return s.receive(message) }

// SendMsg implements grpc.ServerStream.
func (s *conversation) SendMsg(message any) error { return s.send(message) }
