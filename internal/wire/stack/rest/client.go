package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/call/wire"
)

type client struct {
	*stack.HTTPClient
	codec  *codec
	duplex bool // the answer may begin before the request ends
}

var _ stack.RequestMaker = (*client)(nil)

func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := stack.CheckCall(ctx, "rest", options); err != nil {
		return err
	}
	request, err := c.UnaryRequest(ctx, method, args)
	if err != nil {
		return err
	}
	answer, err := c.sendRequest(request, c.codec.message)
	stack.ReportMetadata(options, answer.headerMetadata, answer.trailerMetadata)
	if err != nil {
		return err
	}
	return c.codec.unmarshal(answer.body, reply, codes.Internal)
}

func (c *client) UnaryRequest(ctx context.Context, method string, message any) (*http.Request, error) {
	body, err := c.codec.marshal(message)
	if err != nil {
		return nil, err
	}
	return c.newRequest(ctx, method, c.codec.message, bytes.NewReader(body))
}

// newRequest makes a call's POST request, with the deadline and metadata of ctx.
func (c *client) newRequest(ctx context.Context, method, contentType string, body io.Reader) (*http.Request, error) {
	path, err := pathOf(method)
	if err != nil {
		return nil, status.Error(codes.Internal, "rest: "+err.Error())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+path, body)
	if err != nil {
		return nil, status.Error(codes.Internal, "rest: "+err.Error())
	}
	request.Header.Set("Content-Type", contentType)
	if deadline, limited := ctx.Deadline(); limited {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, status.FromContextError(context.DeadlineExceeded).Err()
		}
		request.Header.Set(timeoutHeader, wire.EncodeTimeout(left))
	}
	if md, has := metadata.FromOutgoingContext(ctx); has {
		if err := checkMetadata(md); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		stack.PutMetadata(request.Header, "", md, isReserved)
	}
	return request, nil
}

// pathOf returns the short path of an operation. fullName is like "/package.Service/Operation".
func pathOf(fullName string) (string, error) {
	slash := strings.LastIndexByte(fullName, '/')
	if slash < 1 || fullName[0] != '/' || slash == len(fullName)-1 {
		return "", fmt.Errorf("the method %q does not have the form /package.Service/Operation", fullName)
	}
	return route.ShortPath(fullName[slash+1:]), nil
}

// answer holds a server's response. The zero value means that there is no response.
type answer struct {
	header http.Header
	body   []byte         // set if the answer is one message
	stream *http.Response // set if the answer is a stream; the caller must close its body
}

// sendRequest sends a request. The answer has a header even if the server reports an error.
func (c *client) sendRequest(request *http.Request, media string) (answer, error) {
	response, err := c.Do(request)
	if err != nil {
		return answer{}, c.Fail(request.Context(), err)
	}
	a := answer{header: response.Header}
	if media == c.codec.stream && response.StatusCode == http.StatusOK && isMedia(response.Header.Get("Content-Type"), media) {
		a.stream = response
		return a, nil
	}
	defer func() { _ = response.Body.Close() }()
	a.body, err = c.codec.readWhole(nil, response.Body)
	if err != nil {
		return a, c.Fail(request.Context(), err)
	}
	return a, checkAnswer(response, a.body, media)
}

func (a *answer) headerMetadata() metadata.MD { return stack.MetadataIn(a.header, "", isReserved) }

// trailerMetadata returns the trailer metadata. For a stream, call it after the stream's end.
func (a *answer) trailerMetadata() metadata.MD {
	if a.stream != nil {
		return stack.MetadataIn(a.stream.Trailer, "", isReserved)
	}
	return stack.MetadataIn(a.header, trailerPrefix, isReserved)
}

// checkAnswer returns an error unless the answer has status 200 and the expected media type.
func checkAnswer(response *http.Response, body []byte, wantMedia string) error {
	if response.StatusCode != http.StatusOK {
		return errorFromAnswer(response, body)
	}
	if contentType := response.Header.Get("Content-Type"); !isMedia(contentType, wantMedia) {
		return status.Errorf(codes.Unknown, "rest: the server answered with content type %q, want %s%s", contentType, wantMedia, bodyExcerpt(contentType, body))
	}
	return nil
}

// clientStream is the client's end of a stream. A goroutine sends the request, so that sending need
// not wait for receiving. RecvMsg waits for the goroutine. The goroutine ends when the answer
// begins, ctx ends or the client is closed.
type clientStream struct {
	client  *client
	ctx     context.Context
	method  string
	desc    *grpc.StreamDesc
	options []grpc.CallOption

	sending   *io.PipeWriter // writes the request's body; nil if the request is one message
	requested bool           // whether the only message was sent
	stop      func()         // stops the sending goroutine

	begun     chan struct{} // closed when answer or err is set
	answer    answer
	receiving *bufio.Reader // reads the answer's body; nil if the answer is one message or failed
	ended     bool          // the stream has ended; only the receiver uses this field
	err       error         // error that ended the stream; io.EOF means status OK
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := stack.CheckCall(ctx, "rest", options); err != nil {
		return nil, err
	}
	if stack.KindOf(desc) == stack.Bidi && !c.duplex {
		return nil, status.Error(codes.Unimplemented, errBidi.Error())
	}
	s := &clientStream{client: c, ctx: ctx, method: method, desc: desc, options: options, stop: func() {}, begun: make(chan struct{})}
	if !desc.ClientStreams {
		return s, nil // SendMsg will send the request
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(ctx)
	body, sending := io.Pipe()
	request, err := c.newRequest(s.ctx, method, c.codec.stream, body)
	if err != nil {
		cancel()
		return nil, err
	}
	endWithClient := c.AfterClose(cancel)
	s.sending, s.stop = sending, func() { endWithClient(); cancel() }
	// net/http cannot cancel a request while it reads the request's body.
	context.AfterFunc(s.ctx, func() { _ = body.CloseWithError(io.EOF) })
	go s.sendRequest(request)
	return s, nil
}

// sendRequest sends the request and waits until the answer begins.
func (s *clientStream) sendRequest(request *http.Request) {
	defer close(s.begun)
	s.answer, s.err = s.client.sendRequest(request, s.client.codec.mediaType(s.desc.ServerStreams))
	if s.answer.stream != nil {
		s.receiving = bufio.NewReader(s.answer.stream.Body)
		return
	}
	s.stop()
}

func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. After io.EOF, RecvMsg returns the error.
func (s *clientStream) SendMsg(message any) error {
	if s.sending == nil {
		return s.sendOnly(message)
	}
	frame, err := s.client.codec.frameOf(message)
	if err != nil {
		_ = s.sending.CloseWithError(err)
		return err
	}
	if _, err := s.sending.Write(frame); err != nil {
		return io.EOF
	}
	return nil
}

func (s *clientStream) sendOnly(message any) error {
	if s.requested {
		return errOneRequest
	}
	s.requested = true
	body, err := s.client.codec.marshal(message)
	if err != nil {
		return s.stopAndFail(err)
	}
	request, err := s.client.newRequest(s.ctx, s.method, s.client.codec.message, bytes.NewReader(body))
	if err != nil {
		return s.stopAndFail(err)
	}
	go s.sendRequest(request)
	return nil
}

var errOneRequest = status.Error(codes.Internal, "rest: a server stream has exactly one request")

func (s *clientStream) stopAndFail(err error) error {
	s.err = err
	close(s.begun)
	return err
}

func (s *clientStream) CloseSend() error {
	switch {
	case s.sending != nil:
		return s.sending.Close()
	case s.requested:
		return nil // the request is complete after its only message
	default:
		s.requested = true
		return s.stopAndFail(errOneRequest)
	}
}

func (s *clientStream) RecvMsg(message any) error {
	<-s.begun
	switch {
	case s.ended:
		return s.err
	case s.receiving != nil:
		return s.receive(message)
	}
	s.end(s.err)
	if s.err != nil {
		return s.err
	}
	s.err = io.EOF // the next RecvMsg returns io.EOF
	return s.client.codec.unmarshal(s.answer.body, message, codes.Internal)
}

func (s *clientStream) receive(message any) error {
	frame, err := s.client.codec.readFrame(s.receiving)
	switch {
	case err == nil:
		if err = s.client.codec.unmarshal(frame, message, codes.Internal); err == nil {
			return nil
		}
	case !errors.Is(err, io.EOF):
		err = s.client.Fail(s.ctx, err)
	default:
		if err = statusIn(s.answer.stream.Trailer).Err(); err == nil {
			err = io.EOF
		}
	}
	_ = s.answer.stream.Body.Close() // if the body was read completely, net/http keeps the connection
	s.stop()
	s.end(err)
	return err
}

func (s *clientStream) end(err error) {
	s.ended, s.err = true, err
	stack.ReportMetadata(s.options, s.answer.headerMetadata, s.answer.trailerMetadata)
}

func (s *clientStream) Header() (metadata.MD, error) {
	<-s.begun
	if s.answer.header == nil {
		return nil, s.err
	}
	return s.answer.headerMetadata(), nil
}

func (s *clientStream) Trailer() metadata.MD {
	<-s.begun
	return s.answer.trailerMetadata()
}
