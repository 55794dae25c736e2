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

// receiving is the client's end of a server stream: one request, many answers.
type receiving struct {
	client      *client
	ctx         context.Context
	method      string
	options     []grpc.CallOption
	requestSent bool

	begun    chan struct{} // closed when response or err is set
	response *http.Response
	frames   *bufio.Reader
	err      error       // how the stream ended; io.EOF for status OK
	trailer  metadata.MD // set when the stream has ended
}

var _ grpc.ClientStream = (*receiving)(nil)

func (s *receiving) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. It does not wait for the answer.
func (s *receiving) SendMsg(message any) error {
	if s.requestSent {
		return status.Error(codes.Internal, "rest: a server stream has one request")
	}
	s.requestSent = true
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

// begin makes the request and checks the answer's header.
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

// CloseSend implements grpc.ClientStream. SendMsg has already sent the whole
// request.
func (s *receiving) CloseSend() error {
	if !s.requestSent {
		s.requestSent = true
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

// end ends the stream and keeps how it ended. net/http keeps the connection if the
// answer was read to its end.
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

// clientBidi is the client's end of a bidirectional stream. The request's body carries
// what is sent, the answer's body what is received; neither waits for the other.
type clientBidi struct {
	outgoing
	receiving
	stop func()
}

var _ grpc.ClientStream = (*clientBidi)(nil)

func (c *client) newClientBidi(ctx context.Context, method string, options []grpc.CallOption) (*clientBidi, error) {
	request, out, end, err := c.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	s := &clientBidi{outgoing: out, stop: end, receiving: receiving{
		client: c, ctx: request.Context(), options: options, requestSent: true, begun: make(chan struct{}),
	}}
	// The goroutine ends like that of SendMsg above.
	go func() {
		defer close(s.begun)
		s.begin(request)
	}()
	return s, nil
}

// SendMsg implements grpc.ClientStream.
func (s *clientBidi) SendMsg(message any) error { return s.outgoing.SendMsg(message) }

// CloseSend implements grpc.ClientStream.
func (s *clientBidi) CloseSend() error { return s.outgoing.CloseSend() }

// RecvMsg implements grpc.ClientStream.
func (s *clientBidi) RecvMsg(message any) error {
	err := s.receiving.RecvMsg(message)
	if err != nil {
		s.stop()
	}
	return err
}
