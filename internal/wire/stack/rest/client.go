package rest

import (
	"bytes"
	"context"
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

// client makes calls over an HTTP client.
type client struct {
	*stack.HTTPClient
	codec  *codec
	duplex bool // an answer may begin before its request ends
}

var _ stack.RequestMaker = (*client)(nil)

// Invoke implements grpc.ClientConnInterface.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := stack.CheckCall(ctx, "rest", options); err != nil {
		return err
	}
	request, err := c.UnaryRequest(ctx, method, args)
	if err != nil {
		return err
	}
	answer, err := c.exchange(request, c.codec.message)
	stack.ReportMetadata(options, answer.headerMetadata, answer.trailerMetadata)
	if err != nil {
		return err
	}
	return c.codec.unmarshal(answer.body, reply, codes.Internal)
}

// UnaryRequest implements stack.RequestMaker.
func (c *client) UnaryRequest(ctx context.Context, method string, message any) (*http.Request, error) {
	body, err := c.codec.marshal(message)
	if err != nil {
		return nil, err
	}
	return c.newRequest(ctx, method, c.codec.message, bytes.NewReader(body))
}

// newRequest makes the POST of a call, with the deadline and the metadata of ctx.
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
		putMetadata(request.Header, "", md)
	}
	return request, nil
}

// pathOf returns the short path of a full name, "/package.Service/Operation".
func pathOf(fullName string) (string, error) {
	slash := strings.LastIndexByte(fullName, '/')
	if slash < 1 || fullName[0] != '/' || slash == len(fullName)-1 {
		return "", fmt.Errorf("%q is not of the form /package.Service/Operation", fullName)
	}
	return route.ShortPath(fullName[slash+1:]), nil
}

// answer is the answer to a request. The zero value stands for no answer.
type answer struct {
	header http.Header
	body   []byte         // if the answer is one message
	stream *http.Response // if the answer is a stream; the caller closes its body
}

// exchange makes a request whose answer should have the media type. The result has the
// answer's header even if the answer is an error.
func (c *client) exchange(request *http.Request, media string) (answer, error) {
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
	return a, check(response, a.body, media)
}

func (a *answer) headerMetadata() metadata.MD { return metadataIn(a.header, "") }

// trailerMetadata returns the trailer, which a stream has only at its end.
func (a *answer) trailerMetadata() metadata.MD {
	if a.stream != nil {
		return metadataIn(a.stream.Trailer, "")
	}
	return metadataIn(a.header, trailerPrefix)
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
