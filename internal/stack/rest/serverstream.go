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

// streamCall holds what the server's kinds of streams share.
type streamCall struct {
	*call
	ctx    context.Context
	cancel context.CancelFunc // ends ctx when a read or write fails, which net/http may not notice
}

func newStreamCall(ctx context.Context, c *call) streamCall {
	ctx, cancel := context.WithCancel(ctx)
	return streamCall{call: c, ctx: ctx, cancel: cancel}
}

func (s *streamCall) Context() context.Context { return s.ctx }

// SetTrailer implements grpc.ServerStream, whose SetTrailer returns no error.
func (s *streamCall) SetTrailer(md metadata.MD) { _ = s.call.SetTrailer(md) }

// broken returns the status of a call whose client went away, and ends the context.
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

// send writes a frame of the answer and flushes it.
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

// finish ends an answer that is a stream with the handler's result.
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

// upload is the server's end of a client stream: many requests, one answer.
type upload struct {
	streamCall
	answer any
}

var _ grpc.ServerStream = (*upload)(nil)

func serveUpload(ctx context.Context, c *call) {
	// Without full duplex net/http reads the rest of the request before it sends
	// an answer, for which the client may be waiting. A writer that returns an
	// error here does not do that.
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
	// Read the rest of the request after the answer was sent: in full duplex
	// net/http would do it too late, and panic at its end.
	_ = http.NewResponseController(c.w).Flush()
	_ = c.r.Body.Close()
}

// RecvMsg implements grpc.ServerStream.
func (s *upload) RecvMsg(message any) error { return s.receive(message) }

// SendMsg implements grpc.ServerStream. The answer is sent when the handler
// returns: until then a second one, which is an error, may follow.
func (s *upload) SendMsg(message any) error {
	if s.answer != nil {
		return status.Error(codes.Internal, "rest: a client stream has one answer")
	}
	s.answer = message
	return nil
}

// download is the server's end of a server stream: one request, many answers.
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

// serverBidi is the server's end of a bidirectional stream. In HTTP/2 and HTTP/3 an
// answer may begin before its request ends.
type serverBidi struct{ streamCall }

var _ grpc.ServerStream = (*serverBidi)(nil)

func serveBidi(ctx context.Context, c *call) {
	if !c.r.ProtoAtLeast(2, 0) {
		c.fail(status.Error(codes.Unimplemented, errBidi.Error()))
		return
	}
	c.stream = true
	s := &serverBidi{newStreamCall(ctx, c)}
	defer s.cancel()
	s.finish(c.method.Stream.Handler(c.method.Service, s))
}

// RecvMsg implements grpc.ServerStream.
func (s *serverBidi) RecvMsg(message any) error { return s.receive(message) }

// SendMsg implements grpc.ServerStream.
func (s *serverBidi) SendMsg(message any) error { return s.send(message) }
