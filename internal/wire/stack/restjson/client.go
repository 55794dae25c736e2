package restjson

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack"
)

// client sends a call as an HTTP request for a resource.
type client struct {
	*stack.HTTPClient
	codec  codec
	routes sync.Map // full name of an operation -> *route.Route
}

var _ stack.Client = (*client)(nil)

// NewStream implements grpc.ClientConnInterface.
func (*client) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, stack.Fail(codes.Unimplemented, errStreams)
}

// Invoke implements grpc.ClientConnInterface.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if err := stack.CheckCall(ctx, name, options); err != nil {
		return err
	}
	if md, has := metadata.FromOutgoingContext(ctx); has && len(md) > 0 {
		return status.Error(codes.Unimplemented, "rest-json: this wire carries no metadata; rest, h1 and grpc do")
	}
	r, err := c.route(method)
	if err != nil {
		return status.Error(codes.Internal, "rest-json: "+err.Error())
	}
	request, err := c.newRequest(ctx, *r, args)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return c.Fail(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readWhole(nil, response.Body)
	if err != nil {
		return c.Fail(ctx, err)
	}
	if response.StatusCode != r.Success {
		return errorIn(response, body)
	}
	if contentType := response.Header.Get("Content-Type"); !isJSON(contentType) {
		return status.Errorf(codes.Unknown, "rest-json: the server answered with content type %q, want %s", contentType, mediaType)
	}
	message, err := stack.ProtoMessage(name, reply)
	if err != nil {
		return err
	}
	return c.codec.decode(body, message, codes.Internal)
}

func (c *client) route(method string) (*route.Route, error) {
	if known, has := c.routes.Load(method); has {
		return known.(*route.Route), nil
	}
	r, err := route.Of(method)
	if err != nil {
		return nil, err
	}
	c.routes.Store(method, &r)
	return &r, nil
}

// newRequest makes the HTTP request of a call.
func (c *client) newRequest(ctx context.Context, r route.Route, args any) (*http.Request, error) {
	message, err := stack.ProtoMessage(name, args)
	if err != nil {
		return nil, err
	}
	at, err := location(r, message)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "rest-json: "+err.Error())
	}
	var body io.Reader
	if r.InBody {
		encoded, err := c.codec.encode(message)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, r.Verb, c.Base+at, body)
	if err != nil {
		return nil, status.Error(codes.Internal, "rest-json: "+err.Error())
	}
	if r.InBody {
		request.Header.Set("Content-Type", mediaType)
	}
	request.Header.Set("Accept", mediaType)
	return request, nil
}

// errStreams is the error of streams, at both ends.
var errStreams = fmt.Errorf("rest-json: a resource answers one request with one response, so there are no streams; h1, h2, grpc and tcp have them: %w", stack.ErrUnsupported)
