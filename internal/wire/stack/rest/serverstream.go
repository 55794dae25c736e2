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

	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

type serverStream struct {
	*call
	ctx    context.Context
	cancel context.CancelFunc // ends ctx when a read or write fails, because net/http may not do so

	request []byte // set if the client sends one message
	taken   bool
	answer  any // set if the server sends one message
}

var _ grpc.ServerStream = (*serverStream)(nil)

func serveStream(ctx context.Context, c *call) {
	s := &serverStream{call: c}
	s.ctx, s.cancel = context.WithCancel(ctx)
	defer s.cancel()
	switch c.method.Kind {
	case stack.ClientStream:
		s.serveUpload()
		return
	case stack.ServerStream:
		if !c.r.ProtoAtLeast(1, 1) {
			sendError(c.w, c.r, http.StatusHTTPVersionNotSupported, status.New(codes.Unimplemented, "rest: a stream of answers needs HTTP/1.1 or newer"))
			return
		}
		var ok bool
		if s.request, ok = c.readRequest(); !ok {
			return
		}
	default: // the answer may begin before the request ends
		if !c.r.ProtoAtLeast(2, 0) {
			c.failCall(status.Error(codes.Unimplemented, errBidi.Error()))
			return
		}
	}
	s.finish(c.method.Stream.Handler(c.method.Service, s))
}

func (s *serverStream) serveUpload() {
	// Without full duplex, net/http reads the rest of the request before it sends an answer, but
	// the client may be waiting for the answer. EnableFullDuplex fails only for writers that never
	// read first.
	_ = http.NewResponseController(s.w).EnableFullDuplex()
	switch err := s.method.Stream.Handler(s.method.Service, s); {
	case err != nil:
		s.failCall(err)
	case s.answer == nil:
		s.failCall(status.Error(codes.Internal, "rest: the handler returned without an answer"))
	default:
		s.reply(s.answer)
	}
	// Read the rest of the request now: in full duplex, net/http would read it too late, and panic.
	_ = http.NewResponseController(s.w).Flush()
	_ = s.r.Body.Close()
}

func (s *serverStream) Context() context.Context { return s.ctx }

// SetTrailer implements grpc.ServerStream, whose SetTrailer cannot return an error.
func (s *serverStream) SetTrailer(md metadata.MD) { _ = s.call.SetTrailer(md) }

// failBroken returns the status of a call whose client disconnected, and ends the context.
func (s *serverStream) failBroken(err error) error {
	if ended := s.ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	s.cancel()
	return status.Errorf(codes.Canceled, "rest: the client went away: %v", err)
}

func (s *serverStream) RecvMsg(message any) error {
	if !s.method.ClientStreams() {
		if s.taken {
			return io.EOF
		}
		s.taken = true
		return s.codec.unmarshal(s.request, message, codes.InvalidArgument)
	}
	request, err := s.codec.readFrame(s.r.Body)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		if _, is := status.FromError(err); is {
			return err
		}
		return s.failBroken(err)
	}
	return s.codec.unmarshal(request, message, codes.InvalidArgument)
}

// SendMsg sends and flushes a message of a stream. The single answer to a client stream is sent
// when the handler returns, because a second answer would be an error.
func (s *serverStream) SendMsg(message any) error {
	if !s.method.ServerStreams() {
		if s.answer != nil {
			return status.Error(codes.Internal, "rest: a client stream has exactly one answer")
		}
		s.answer = message
		return nil
	}
	frame, err := s.codec.frameOf(message)
	if err != nil {
		return err
	}
	if s.closeHeader() {
		s.beginStream()
	}
	if _, err := s.w.Write(frame); err != nil {
		return s.failBroken(err)
	}
	if err := http.NewResponseController(s.w).Flush(); err != nil {
		return s.failBroken(err)
	}
	return nil
}

func (s *serverStream) finish(err error) {
	begun := !s.closeHeader()
	if err != nil && !begun {
		s.failCall(err)
		return
	}
	if !begun {
		s.beginStream()
	}
	s.putTrailer(http.TrailerPrefix)
	putStatus(s.w.Header(), rpccall.StatusOf(err))
}
