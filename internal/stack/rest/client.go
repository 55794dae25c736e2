package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// client makes calls over an HTTP client.
type client struct {
	*stack.HTTPClient
	codec  *codec
	duplex bool // an answer may begin before its request ends
}

// Invoke implements grpc.ClientConnInterface.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := stack.CheckCallOptions("rest", options); err != nil {
		return err
	}
	body, err := c.codec.marshal(args)
	if err != nil {
		return err
	}
	request, err := c.newRequest(ctx, method, c.codec.message, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := c.exchange(request)
	answer.report(options)
	if err != nil {
		return err
	}
	return c.codec.unmarshal(answer.body, reply, codes.Internal)
}

// newRequest makes the POST of a call, with the deadline and the metadata of ctx.
func (c *client) newRequest(ctx context.Context, method, contentType string, body io.Reader) (*http.Request, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
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
		request.Header.Set(timeoutHeader, encodeTimeout(left))
	}
	if md, has := metadata.FromOutgoingContext(ctx); has {
		if err := checkMetadata(md); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		putMetadata(request.Header, "", md)
	}
	return request, nil
}

// answer is the answer to a request if it is one message. The zero value stands for
// no answer.
type answer struct {
	header http.Header
	body   []byte
}

// exchange makes a request and reads the whole answer. The result has the answer's
// header even if the answer is an error.
func (c *client) exchange(request *http.Request) (answer, error) {
	response, err := c.Do(request)
	if err != nil {
		return answer{}, c.Fail(request.Context(), err)
	}
	defer func() { _ = response.Body.Close() }()
	a := answer{header: response.Header}
	a.body, err = c.codec.readWhole(nil, response.Body)
	if err != nil {
		return a, c.Fail(request.Context(), err)
	}
	return a, check(response, a.body, c.codec.message)
}

// check returns an error unless the answer is 200 with the wanted media type.
func check(response *http.Response, body []byte, wantMedia string) error {
	if response.StatusCode != http.StatusOK {
		return errorIn(response, body)
	}
	if contentType := response.Header.Get("Content-Type"); !isMedia(contentType, wantMedia) {
		return status.Errorf(codes.Unknown, "rest: the server answered with content type %q, want %s%s", contentType, wantMedia, excerpt(contentType, body))
	}
	return nil
}

// report stores the metadata for grpc.Header and grpc.Trailer.
func (a *answer) report(options []grpc.CallOption) {
	for _, option := range options {
		switch o := option.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = metadataIn(a.header, "")
		case grpc.TrailerCallOption:
			*o.TrailerAddr = metadataIn(a.header, trailerPrefix)
		}
	}
}
