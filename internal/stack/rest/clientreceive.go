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
)

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
	body, err := s.client.codec.marshal(message)
	if err != nil {
		return s.abandon(err)
	}
	request, err := s.client.newRequest(s.ctx, s.method, s.client.codec.message, bytes.NewReader(body))
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
	response, err := s.client.Do(request) //nolint:bodyclose // end closes it
	if err != nil {
		s.err = s.client.Fail(s.ctx, err)
		return
	}
	s.response = response
	if response.StatusCode == http.StatusOK && isMedia(response.Header.Get("Content-Type"), s.client.codec.stream) {
		s.frames = bufio.NewReader(response.Body)
		return
	}
	body, err := s.client.codec.readWhole(nil, response.Body)
	if err != nil {
		err = s.client.Fail(s.ctx, err)
	} else {
		err = check(response, body, s.client.codec.stream)
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
	frame, err := s.client.codec.readFrame(s.frames)
	switch {
	case err == nil:
		if err := s.client.codec.unmarshal(frame, message, codes.Internal); err != nil {
			return s.end(err, nil)
		}
		return nil
	case !errors.Is(err, io.EOF):
		return s.end(s.client.Fail(s.ctx, err), nil)
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

// conversing is a bidirectional stream at the client: what is sent is the body
// of a request, what is received that of its answer, and neither waits for the
// other.
type conversing struct {
	outgoing
	receiving
	over func()
}

var _ grpc.ClientStream = (*conversing)(nil)

func (c *client) newConversing(ctx context.Context, method string, options []grpc.CallOption) (*conversing, error) {
	request, out, end, err := c.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	s := &conversing{outgoing: out, over: end, receiving: receiving{
		client: c, ctx: request.Context(), options: options, asked: true, begun: make(chan struct{}),
	}}
	// The goroutine ends as that of a server stream does.
	go func() {
		defer close(s.begun)
		s.begin(request)
	}()
	return s, nil
}

// SendMsg implements grpc.ClientStream.
func (s *conversing) SendMsg(message any) error { return s.outgoing.SendMsg(message) }

// CloseSend implements grpc.ClientStream.
func (s *conversing) CloseSend() error { return s.outgoing.CloseSend() }

// RecvMsg implements grpc.ClientStream.
func (s *conversing) RecvMsg(message any) error {
	err := s.receiving.RecvMsg(message)
	if err != nil {
		s.over()
	}
	return err
}
