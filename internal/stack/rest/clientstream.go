package rest

import (
	"bufio"
	"bytes"
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

// NewStream implements grpc.ClientConnInterface.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := checkOptions(options); err != nil {
		return nil, err
	}
	switch stack.KindOf(desc) {
	case stack.ClientStream:
		return c.newSending(ctx, method, options)
	case stack.ServerStream:
		return &receiving{client: c, ctx: ctx, method: method, options: options, begun: make(chan struct{})}, nil
	default:
		return nil, status.Error(codes.Unimplemented, errBidi.Error())
	}
}

// sending is a client stream at the client: many requests, one answer.
type sending struct {
	ctx     context.Context
	options []grpc.CallOption
	frames  *io.PipeWriter

	answered chan struct{} // closed when answer and err are there
	answer   answer
	err      error
	taken    bool
}

var _ grpc.ClientStream = (*sending)(nil)

func (c *client) newSending(ctx context.Context, method string, options []grpc.CallOption) (*sending, error) {
	ctx, end := context.WithCancel(ctx)
	body, frames := io.Pipe()
	request, err := c.newRequest(ctx, method, streamType, body)
	if err != nil {
		end()
		return nil, err
	}
	s := &sending{ctx: ctx, options: options, frames: frames, answered: make(chan struct{})}
	endWithClient := context.AfterFunc(c.life, end)
	// Whoever still sends learns that the call is over; and net/http, which
	// does not give a request up while it reads its body, comes free.
	context.AfterFunc(ctx, func() { _ = body.CloseWithError(io.EOF) })
	// The goroutine ends with the answer, with ctx, or with the client; RecvMsg
	// waits for it.
	go func() {
		defer close(s.answered)
		s.answer, s.err = c.exchange(request)
		endWithClient()
		end()
	}()
	return s, nil
}

func (s *sending) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. io.EOF means that RecvMsg knows more.
func (s *sending) SendMsg(message any) error {
	frame, err := frameOf(message)
	if err != nil {
		_ = s.frames.CloseWithError(err)
		return err
	}
	if _, err := s.frames.Write(frame); err != nil {
		return io.EOF
	}
	return nil
}

func (s *sending) CloseSend() error { return s.frames.Close() }

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
	return unmarshal(s.answer.body, message, codes.Internal)
}

func (s *sending) Header() (metadata.MD, error) {
	<-s.answered
	return metadataIn(s.answer.header, ""), nil
}

func (s *sending) Trailer() metadata.MD {
	<-s.answered
	return metadataIn(s.answer.header, trailerPrefix)
}

// receiving is a server stream at the client: one request, many answers.
type receiving struct {
	client  *client
	ctx     context.Context
	method  string
	options []grpc.CallOption
	asked   bool

	begun    chan struct{} // closed when response or err is there
	response *http.Response
	frames   *bufio.Reader
	err      error       // how the stream ended, io.EOF if well
	trailer  metadata.MD // there once it has ended
}

var _ grpc.ClientStream = (*receiving)(nil)

func (s *receiving) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. It does not wait for the answer.
func (s *receiving) SendMsg(message any) error {
	if s.asked {
		return status.Error(codes.Internal, "rest: a server stream has one request")
	}
	s.asked = true
	body, err := marshal(message)
	if err != nil {
		return s.abandon(err)
	}
	request, err := s.client.newRequest(s.ctx, s.method, messageType, bytes.NewReader(body))
	if err != nil {
		return s.abandon(err)
	}
	// The goroutine ends when the answer begins, with ctx, or with the client,
	// which closes its connections; RecvMsg waits for it.
	go func() {
		defer close(s.begun)
		s.begin(request)
	}()
	return nil
}

func (s *receiving) abandon(err error) error {
	s.err = err
	close(s.begun)
	return err
}

// begin makes the request and looks at how it is answered.
func (s *receiving) begin(request *http.Request) {
	response, err := s.client.http.Do(request) //nolint:bodyclose // end closes it
	if err != nil {
		s.err = s.client.failure(s.ctx, err)
		return
	}
	s.response = response
	if response.StatusCode == http.StatusOK && isMedia(response.Header.Get("Content-Type"), streamType) {
		s.frames = bufio.NewReader(response.Body)
		return
	}
	body, err := readWhole(nil, response.Body)
	if err != nil {
		err = s.client.failure(s.ctx, err)
	} else {
		err = check(response, body, streamType)
	}
	_ = s.end(err, metadataIn(response.Header, trailerPrefix)) // RecvMsg returns it
}

// CloseSend implements grpc.ClientStream. The request was complete before.
func (s *receiving) CloseSend() error {
	if !s.asked {
		s.asked = true
		return s.abandon(status.Error(codes.Internal, "rest: a server stream has one request"))
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *receiving) RecvMsg(message any) error {
	<-s.begun
	if s.err != nil {
		return s.err
	}
	frame, err := readFrame(s.frames)
	switch {
	case err == nil:
		if err := unmarshal(frame, message, codes.Internal); err != nil {
			return s.end(err, nil)
		}
		return nil
	case !errors.Is(err, io.EOF):
		return s.end(s.client.failure(s.ctx, err), nil)
	}
	err = statusIn(s.response.Trailer).Err()
	if err == nil {
		err = io.EOF
	}
	return s.end(err, metadataIn(s.response.Trailer, ""))
}

// end gives the connection back, or up where the answer was not read to its
// end, and keeps how the stream ended.
func (s *receiving) end(err error, trailer metadata.MD) error {
	_ = s.response.Body.Close()
	s.err, s.trailer = err, trailer
	for _, option := range s.options {
		switch o := option.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = metadataIn(s.response.Header, "")
		case grpc.TrailerCallOption:
			*o.TrailerAddr = trailer
		}
	}
	return err
}

func (s *receiving) Header() (metadata.MD, error) {
	<-s.begun
	if s.response == nil {
		return nil, s.err
	}
	return metadataIn(s.response.Header, ""), nil
}

func (s *receiving) Trailer() metadata.MD {
	<-s.begun
	return s.trailer
}
